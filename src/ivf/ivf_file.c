/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An index as a sealed file, and back. All arrays of an index lie in the file as engines read them, so that opening
 * copies nothing; what is derived (block starts, rotated mean, the engine's prepared form) is made again.
 */
#include "ivf_file.h"

#include <string.h>

#include "ivf_params.h"
#include "ivf_rotation.h"

const char *nf_ivf_section_name(uint32_t type)
{
    static const char *const names[NF_IVF_SECTIONS + 1] = {
        "unknown", "params", "mean", "rotation", "centroids", "lists", "blocks", "records", "ids", "recall", "vectors",
    };
    return names[type <= NF_IVF_SECTIONS ? type : 0];
}

/* ---- the section of parameters: little-endian fields ---- */

static uint8_t *put(uint8_t *to, uint64_t value, uint32_t bytes)
{
    for (uint32_t i = 0; i < bytes; i++) to[i] = (uint8_t)(value >> 8 * i);
    return to + bytes;
}

static uint64_t get(const uint8_t **from, uint32_t bytes)
{
    uint64_t value = 0;
    for (uint32_t i = 0; i < bytes; i++) value |= (uint64_t)(*from)[i] << 8 * i;
    *from += bytes;
    return value;
}

static void put_params(const nf_ivf_index *index, uint8_t *to)
{
    const nf_ivf_view *view = &index->view;
    const uint32_t     fields[] = {
            view->dims,          view->padded,         view->lists,
            view->bits,          view->metric,         view->rotation.kind,
            view->wide_ids,      index->user_ids,      view->vectors != NULL,
            view->vectors_dtype, index->recall_points, 0,
    };
    to = put(to, view->rows, 8);
    to = put(to, index->seed, 8);
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) to = put(to, fields[i], 4);
}

static nf_ivf_file_params get_params(const uint8_t *from)
{
    nf_ivf_file_params params = {.rows = get(&from, 8), .seed = get(&from, 8)};
    uint32_t *const    fields[] = {
           &params.dims,         &params.padded,        &params.lists,         &params.bits,
           &params.metric,       &params.rotation,      &params.wide_ids,      &params.user_ids,
           &params.keep_vectors, &params.vectors_dtype, &params.recall_points, &params.reserved,
    };
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) *fields[i] = (uint32_t)get(&from, 4);
    return params;
}

/* ---- sections ---- */

static uint64_t rotation_bytes(uint32_t kind, uint32_t padded)
{
    return kind == NF_ROTATION_FAST ? nf_ivf_sign_bytes(padded) : (uint64_t)padded * padded * sizeof(float);
}

static uint64_t vector_bytes(const nf_ivf_view *view)
{
    return (uint64_t)view->dims * nf_dtype_bytes((nf_dtype)view->vectors_dtype);
}

/* Lists the sections of an index; returns how many. params: NF_IVF_PARAMS_BYTES bytes, filled. */
static uint32_t list_sections(const nf_ivf_index *index, uint8_t *params, nf_sealed_section *sections)
{
    const nf_ivf_view      *view = &index->view;
    const nf_rotation_map  *map = &view->rotation;
    const uint64_t          record = nf_ivf_record_bytes(view->padded, view->bits);
    const uint64_t          recall_bytes = index->recall_points * sizeof(nf_ivf_recall);
    const nf_sealed_section all[NF_IVF_SECTIONS] = {
        {NF_IVF_SECTION_PARAMS, NF_SEALED_REQUIRED, params, NF_IVF_PARAMS_BYTES},
        {NF_IVF_SECTION_MEAN, NF_SEALED_REQUIRED, view->mean, view->dims * sizeof(float)},
        {NF_IVF_SECTION_ROTATION, NF_SEALED_REQUIRED,
         map->kind == NF_ROTATION_FAST ? (const void *)map->signs : map->matrix,
         rotation_bytes(map->kind, view->padded)},
        {NF_IVF_SECTION_CENTROIDS, NF_SEALED_REQUIRED, view->centroids,
         (uint64_t)view->lists * view->padded * sizeof(float)},
        {NF_IVF_SECTION_LISTS, NF_SEALED_REQUIRED, view->list_start, ((uint64_t)view->lists + 1) * sizeof(uint64_t)},
        {NF_IVF_SECTION_BLOCKS, NF_SEALED_REQUIRED, view->blocks,
         view->block_start[view->lists] * nf_ivf_block_bytes(view->padded)},
        {NF_IVF_SECTION_RECORDS, NF_SEALED_REQUIRED, view->records, view->rows * record},
        {NF_IVF_SECTION_IDS, NF_SEALED_REQUIRED, view->ids, view->rows * (view->wide_ids != 0 ? 8 : 4)},
        {NF_IVF_SECTION_RECALL, 0, index->recall, recall_bytes},
        {NF_IVF_SECTION_VECTORS, NF_SEALED_REQUIRED, view->vectors,
         view->vectors != NULL ? view->rows * vector_bytes(view) : 0},
    };
    uint32_t count = 0;
    put_params(index, params);
    for (uint32_t i = 0; i < NF_IVF_SECTIONS; i++) {
        if (all[i].bytes != 0) sections[count++] = all[i];
    }
    return count;
}

void nf_ivf_index_measure(nf_ivf_index *index)
{
    uint8_t           params[NF_IVF_PARAMS_BYTES];
    nf_sealed_section sections[NF_IVF_SECTIONS];
    const uint32_t    count = list_sections(index, params, sections);
    nf_sealed_measure(sections, count, &index->info);
}

nf_status nf_ivf_save(nf_context *ctx, const nf_ivf_index *index, const char *path, uint32_t sync)
{
    if (ctx == NULL) return NF_ERR_ARGUMENT;
    nf_context_begin(ctx);
    if (index == NULL || path == NULL) return nf_fail(ctx, NF_ERR_ARGUMENT, "index or path is NULL");
    uint8_t           params[NF_IVF_PARAMS_BYTES];
    nf_sealed_section sections[NF_IVF_SECTIONS];
    const uint32_t    count = list_sections(index, params, sections);
    return nf_sealed_write(ctx, path, sections, count, sync != 0, NULL);
}

/* ---- opening ---- */

/* Finds a section of exactly that many bytes; none where none are needed. */
static nf_status find(const nf_ivf_opening *at, nf_ivf_section type, uint64_t bytes, const void **data)
{
    const nf_sealed_section *section = nf_sealed_find(at->index->file, (uint32_t)type);
    const uint64_t           has = section != NULL ? section->bytes : 0;
    *data = bytes != 0 && section != NULL ? section->data : NULL;
    if (has == bytes) return NF_OK;
    return nf_fail(at->ctx, NF_ERR_DAMAGED, "%s: section %s has %llu bytes, the parameters of the index imply %llu",
                   at->path, nf_ivf_section_name((uint32_t)type), (unsigned long long)has, (unsigned long long)bytes);
}

static nf_status refuse_unknown(const nf_ivf_opening *at)
{
    static const uint32_t    known[NF_IVF_SECTIONS] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
    const nf_sealed_section *unknown = nf_sealed_unknown(at->index->file, known, NF_IVF_SECTIONS);
    if (unknown == NULL) return NF_OK;
    return nf_fail(at->ctx, NF_ERR_VERSION,
                   "%s: section %u is needed to read this index, but this version does not know it", at->path,
                   unknown->type);
}

static nf_status read_params(const nf_ivf_opening *at, nf_ivf_file_params *params)
{
    nf_ivf_index *index = at->index;
    const void   *data;
    NF_TRY(find(at, NF_IVF_SECTION_PARAMS, NF_IVF_PARAMS_BYTES, &data));
    *params = get_params(data);
    NF_TRY(nf_ivf_check_params(at, params));
    index->seed = params->seed;
    index->user_ids = params->user_ids;
    index->recall_points = params->recall_points;
    index->view = (nf_ivf_view){
        .rows = params->rows,
        .dims = params->dims,
        .padded = params->padded,
        .lists = params->lists,
        .bits = params->bits,
        .metric = params->metric,
        .wide_ids = params->wide_ids,
        .vectors_dtype = params->vectors_dtype,
        .rotation = {.kind = params->rotation, .dims = params->dims, .padded = params->padded},
    };
    return NF_OK;
}

/* Sections whose sizes follow from the parameters alone. */
static nf_status find_tables(const nf_ivf_opening *at)
{
    nf_ivf_index  *index = at->index;
    nf_ivf_view   *view = &index->view;
    const uint64_t lists = view->lists;
    const void    *data;

    NF_TRY(find(at, NF_IVF_SECTION_MEAN, view->dims * sizeof(float), &data));
    view->mean = data;
    NF_TRY(find(at, NF_IVF_SECTION_ROTATION, rotation_bytes(view->rotation.kind, view->padded), &data));
    if (view->rotation.kind == NF_ROTATION_FAST) {
        view->rotation.signs = data;
    } else {
        view->rotation.matrix = data;
    }
    NF_TRY(find(at, NF_IVF_SECTION_CENTROIDS, lists * view->padded * sizeof(float), &data));
    view->centroids = data;
    NF_TRY(find(at, NF_IVF_SECTION_LISTS, (lists + 1) * sizeof(uint64_t), &data));
    view->list_start = data;
    NF_TRY(find(at, NF_IVF_SECTION_RECALL, index->recall_points * sizeof(nf_ivf_recall), &data));
    index->recall = data;
    return NF_OK;
}

/* Sections that hold rows. */
static nf_status find_rows(const nf_ivf_opening *at, bool vectors)
{
    nf_ivf_view   *view = &at->index->view;
    const uint64_t blocks = view->block_start[view->lists];
    const void    *data;

    NF_TRY(find(at, NF_IVF_SECTION_BLOCKS, blocks * nf_ivf_block_bytes(view->padded), &data));
    view->blocks = data;
    NF_TRY(find(at, NF_IVF_SECTION_RECORDS, view->rows * nf_ivf_record_bytes(view->padded, view->bits), &data));
    view->records = data;
    NF_TRY(find(at, NF_IVF_SECTION_IDS, view->rows * (view->wide_ids != 0 ? 8 : 4), &data));
    view->ids = data;
    NF_TRY(find(at, NF_IVF_SECTION_VECTORS, vectors ? view->rows * vector_bytes(view) : 0, &data));
    view->vectors = data;
    return NF_OK;
}

static nf_status open_file(nf_ivf_opening *at, const nf_ivf_open_params *params)
{
    nf_context        *ctx = at->ctx;
    nf_ivf_index      *index = at->index;
    nf_ivf_file_params held;

    NF_TRY(nf_sealed_open(ctx, index->memory, at->path, params->map != 0, (nf_verify)params->verify, &index->file));
    nf_sealed_describe(index->file, &index->info);
    NF_TRY(refuse_unknown(at));
    NF_TRY(read_params(at, &held));
    NF_TRY(nf_ivf_index_choose_engine(ctx, index));
    NF_TRY(find_tables(at));
    NF_TRY(nf_ivf_check_lists(at));
    NF_TRY(nf_ivf_check_tables(at));
    index->owned.block_start = nf_alloc_in(ctx, index->memory, (uint64_t)held.lists + 1, sizeof(uint64_t));
    if (index->owned.block_start == NULL) return nf_alloc_status(ctx);
    nf_ivf_block_starts(index->view.list_start, held.lists, index->owned.block_start);
    index->view.block_start = index->owned.block_start;
    NF_TRY(find_rows(at, held.keep_vectors != 0));
    if (params->verify == NF_VERIFY_FULL) NF_TRY(nf_ivf_check_rows(at));
    return nf_ivf_index_complete(ctx, index);
}

nf_status nf_ivf_open(nf_context *ctx, const char *path, const nf_ivf_open_params *params, nf_ivf_index **out)
{
    nf_ivf_open_params use;
    nf_ivf_opening     at = {.ctx = ctx, .path = path};

    if (ctx == NULL || out == NULL) return NF_ERR_ARGUMENT;
    nf_context_begin(ctx);
    *out = NULL;
    if (path == NULL) return nf_fail(ctx, NF_ERR_ARGUMENT, "path is NULL");
    NF_TRY(nf_ivf_open_params_take(ctx, params, &use));
    NF_TRY(nf_ivf_index_new(ctx, &at.index));
    nf_progress_begin(ctx, "open", 0);
    const nf_status status = open_file(&at, &use);
    if (status < 0) {
        nf_ivf_release(at.index);
        return status;
    }
    *out = at.index;
    return NF_OK;
}
