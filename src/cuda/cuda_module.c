/* SPDX-License-Identifier: Apache-2.0 */
/* The CUDA engine: its table of operations, and the module's table (engine_module.h). */
#include "cuda_device.h"
#include "cuda_ivf.h"
#include "cuda_points.h"
#include "cuda_search.h"

static const nf_engine_ops cuda_engine = {
    .struct_size = sizeof(nf_engine_ops),
    .abi = NF_ENGINE_ABI,
    .name = "cuda",
    .points_open = nf_cuda_points_open,
    .select_dims = nf_cuda_select_dims,
    .group = nf_cuda_group,
    .order = nf_cuda_order,
    .points_describe = nf_cuda_points_describe,
    .points_close = nf_cuda_points_close,
    .search_open = nf_cuda_search_open,
    .search_info = nf_cuda_search_info,
    .search_close = nf_cuda_search_close,
    .first_intersection_test = nf_cuda_first_intersection_test,
    .list_hits = nf_cuda_list_hits,
    .refine = nf_cuda_refine,
    .refine_counts = nf_cuda_refine_counts,
    .batch_rows = nf_cuda_batch_rows,
    .compress = nf_cuda_compress,
    .deliver = nf_cuda_deliver,
    .points_read = nf_cuda_points_read,
    .ivf = &nf_cuda_ivf_ops,
};

/* A device that opens can do the work. */
static nf_status open_engine(nf_context *ctx, const nf_engine_ops **ops)
{
    nf_device *device = NULL;
    *ops = NULL;
    NF_TRY(nf_device_open(ctx, &device));
    nf_device_release(device);
    *ops = &cuda_engine;
    return NF_OK;
}

extern const nf_engine_module nf_cuda_module;

const nf_engine_module nf_cuda_module = {
    .struct_size = sizeof(nf_engine_module),
    .abi = NF_MODULE_ABI,
    .version = NF_VERSION,
    .name = "cuda",
    .open = open_engine,
    .describe = nf_device_describe,
};
