/* SPDX-License-Identifier: Apache-2.0 */
/* The CPU engine: its table of operations. */
#include "cpu_ivf.h"
#include "cpu_knn.h"
#include "cpu_near.h"
#include "cpu_points.h"
#include "cpu_search.h"

extern const nf_engine_ops nf_cpu_engine;

const nf_engine_ops nf_cpu_engine = {
    .struct_size = sizeof(nf_engine_ops),
    .abi = NF_ENGINE_ABI,
    .name = "cpu",
    .points_open = nf_cpu_points_open,
    .select_dims = nf_cpu_select_dims,
    .group = nf_cpu_group,
    .order = nf_cpu_order,
    .points_describe = nf_cpu_points_describe,
    .points_close = nf_cpu_points_close,
    .search_open = nf_cpu_search_open,
    .search_info = nf_cpu_search_info,
    .search_close = nf_cpu_search_close,
    .first_intersection_test = nf_cpu_first_intersection_test,
    .list_hits = nf_cpu_list_hits,
    .refine = nf_cpu_refine,
    .refine_counts = nf_cpu_refine_counts,
    .batch_rows = nf_cpu_batch_rows,
    .compress = nf_cpu_compress,
    .deliver = nf_cpu_deliver,
    .knn = nf_cpu_knn,
    .knn_points = nf_cpu_knn_points,
    .points_read = nf_cpu_points_read,
    .ivf = &nf_cpu_ivf_ops,
    .refine_histogram = nf_cpu_refine_histogram,
    .abilities = NF_CAN_INNER | NF_CAN_RADII,
};
