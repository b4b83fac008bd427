/* SPDX-License-Identifier: Apache-2.0 */
/* Samples of rows, and what is said about all from them. */
#include "exact_sample.h"

#include <math.h>
#include <string.h>

#include "exact_private.h"
#include "matrix/matrix_convert.h"

/* Steele, Lea and Flood's SplitMix64, as a function of the seed and a number. */
static uint64_t random_bits(uint64_t seed, uint64_t number)
{
    uint64_t x = seed * 0xd1342543de82ef95u + (number + 1) * 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

void nf_sample_params_init(nf_sample_params *params)
{
    memset(params, 0, sizeof *params);
    params->struct_size = sizeof *params;
    params->rows = 1000;
    params->seed = 1;
}

/* Takes params, or the defaults for NULL, and limits rows to those there are. */
static nf_status take_params(nf_context *ctx, const nf_sample_params *given, uint64_t total, nf_sample_params *params)
{
    nf_sample_params_init(params);
    if (given != NULL) {
        if (given->struct_size < sizeof given->struct_size) {
            return nf_fail(ctx, NF_ERR_ARGUMENT,
                           "struct_size of the sample's parameters is %zu; use nf_sample_params_init",
                           given->struct_size);
        }
        memcpy(params, given, given->struct_size < sizeof *params ? given->struct_size : sizeof *params);
    }
    if (params->rows == 0) return nf_fail(ctx, NF_ERR_ARGUMENT, "rows of the sample is 0, at least 1 is needed");
    if (params->rows > total) params->rows = total;
    return NF_OK;
}

/* Selection sampling: each number is taken with the probability of what is still wanted among what is left. */
void nf_sample_numbers(uint64_t total, uint64_t count, uint64_t seed, uint64_t *out)
{
    uint64_t taken = 0;
    for (uint64_t i = 0; taken < count; i++) {
        const double unit = (double)(random_bits(seed, i) >> 11) * 0x1p-53;
        if (unit * (double)(total - i) < (double)(count - taken)) out[taken++] = i;
    }
}

void nf_sample_mean(const uint64_t *counts, uint64_t count, uint64_t total, double *mean, double *standard_error)
{
    double sum = 0.0, squares = 0.0;
    for (uint64_t i = 0; i < count; i++) sum += (double)counts[i];
    *mean = count > 0 ? sum / (double)count : 0.0;
    for (uint64_t i = 0; i < count; i++) squares += ((double)counts[i] - *mean) * ((double)counts[i] - *mean);
    *standard_error = count == total ? 0.0 : (double)NAN;
    if (count < total && count > 1) {
        const double left = 1.0 - (double)count / (double)total;
        *standard_error = sqrt(left * squares / (double)(count - 1) / (double)count);
    }
}

nf_status nf_sample_check(nf_context *ctx, const nf_radius_index *index, const nf_matrix *queries,
                          const nf_sample_params *params, nf_sample_params *taken)
{
    if (index == NULL) return nf_fail(ctx, NF_ERR_ARGUMENT, "index is NULL");
    NF_TRY(nf_exact_check_matrix(ctx, queries, "queries"));
    if (queries->rows == 0) return nf_fail(ctx, NF_ERR_ARGUMENT, "there are no queries to take a sample of");
    NF_TRY(take_params(ctx, params, queries->rows, taken));
    if (queries->dims != index->dims) {
        return nf_fail(ctx, NF_ERR_ARGUMENT, "queries have %u dims, the data have %u", queries->dims, index->dims);
    }
    if (taken->self_join && queries->rows != index->rows) {
        return nf_fail(ctx, NF_ERR_ARGUMENT,
                       "queries have %llu rows, but in a self-join they are the data, which have %llu",
                       (unsigned long long)queries->rows, (unsigned long long)index->rows);
    }
    return NF_OK;
}

nf_status nf_sample_copy(nf_context *ctx, const nf_matrix *from, const nf_sample_params *params, void **values,
                         nf_matrix *sample)
{
    const uint64_t bytes = from->dims * nf_dtype_bytes((nf_dtype)from->dtype);
    uint64_t      *numbers = nf_alloc(ctx, params->rows, sizeof *numbers);

    *values = numbers != NULL ? nf_alloc(ctx, params->rows, bytes) : NULL;
    if (*values == NULL) {
        nf_free(numbers);
        return nf_alloc_status(ctx);
    }
    nf_sample_numbers(from->rows, params->rows, params->seed, numbers);
    for (uint64_t i = 0; i < params->rows; i++) {
        memcpy((char *)*values + i * bytes, nf_matrix_row(from, numbers[i]), bytes);
    }
    nf_free(numbers);
    *sample = (nf_matrix){.data = *values, .rows = params->rows, .dims = from->dims, .dtype = from->dtype};
    return NF_OK;
}

nf_status nf_sample_counts(nf_context *ctx, const nf_radius_index *index, const nf_matrix *sample,
                           const nf_radius_params *params, bool self_join, uint64_t *counts)
{
    NF_TRY(nf_radius_counts(ctx, index, sample, params, counts, NULL));
    for (uint64_t i = 0; self_join && i < sample->rows; i++) counts[i] -= counts[i] > 0;
    return NF_OK;
}
