/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Distances as the contract defines them: binary64, one fused multiply-add per dimension in ascending order, whatever
 * the type of the data. docs/numerics.md, section 9.
 */
#include <math.h>

#include "cpu_knn.h"
#include "cpu_search.h"
#include "matrix/matrix_convert.h"
#include "matrix/matrix_distance.h"
#include "matrix/matrix_exact.h"

static double cosine_distance(const nf_knn_scratch *scratch, double *row, uint32_t dims)
{
    const double length = nf_cosine_length(row, dims);
    if (length == 0.0 || scratch->query_root == 0.0) return 1.0;
    return 1.0 - nf_dot_f64(row, scratch->query, dims) / (length * scratch->query_root);
}

/* L2: the sums come from the kernel of the instruction set, which takes rows by their numbers. */
static void euclidean(const nf_kernels *kernels, const nf_knn_scratch *scratch, uint32_t dims, uint32_t count,
                      double *distances)
{
    static const uint32_t at[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    const uint32_t        most = sizeof at / sizeof at[0];
    for (uint32_t i = 0; i < count; i += most) {
        const uint32_t part = count - i < most ? count - i : most;
        kernels->sums(NF_STORE_F64, scratch->query, scratch->rows + (size_t)i * dims, dims * sizeof(double), dims, at,
                      part, distances + i);
    }
    for (uint32_t i = 0; i < count; i++) {
        const double sum = distances[i];
        distances[i] = sum >= NF_SUM_SMALL && sum <= NF_SUM_LARGE
                           ? sqrt(sum)
                           : nf_exact_distance_scaled(scratch->query, scratch->rows + (size_t)i * dims, dims);
    }
}

void nf_knn_distances(const nf_knn_space *space, nf_knn_scratch *scratch, uint64_t query, const uint32_t *ids,
                      uint32_t count, double *distances)
{
    const uint32_t dims = space->dims;
    nf_matrix_row_f64(space->queries, query, scratch->query);
    if (space->metric == NF_METRIC_COSINE) scratch->query_root = nf_cosine_length(scratch->query, dims);
    for (uint32_t begin = 0; begin < count; begin += scratch->rows_room) {
        const uint32_t part = count - begin < scratch->rows_room ? count - begin : scratch->rows_room;
        double        *out = distances + begin;
        for (uint32_t i = 0; i < part; i++) {
            double *row = scratch->rows + (size_t)i * dims;
            nf_matrix_row_f64(space->data, ids[begin + i], row);
            /* 0 - dot: a product of 0 gives 0, not -0. */
            if (space->metric == NF_METRIC_IP) out[i] = 0.0 - nf_dot_f64(row, scratch->query, dims);
            if (space->metric == NF_METRIC_COSINE) out[i] = cosine_distance(scratch, row, dims);
        }
        if (space->metric == NF_METRIC_L2) euclidean(scratch->sorter.kernels, scratch, dims, part, out);
    }
    scratch->rechecked += count;
}
