/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How pairs become bytes, per format: the arrays that follow the order of the pairs, and the file's layout around them.
 *
 *     .npz    indices (i32 or i64), data (f64, f32, or i8 ones without distances)
 *     .npy    query, row (both i32 or both i64)
 *     .bin    ids (i32), squared distances (f32): big-ann's range truth
 *     text    query,row[,distance]
 */
#include <float.h>
#include <inttypes.h>
#include <string.h>

#include "core/core_error.h"
#include "io_join.h"
#include "io_ordered.h"
#include "io_text.h"

static void put_bytes(char **out, const void *from, size_t bytes)
{
    memcpy(*out, from, bytes);
    *out += bytes;
}

static char *encode_indices_32(const nf_join *join, const nf_radius_batch *batch, int64_t query_id, uint64_t first,
                               uint64_t last, char *out)
{
    (void)query_id;
    if (join->data.ids == NULL && join->data.first == 0) {
        put_bytes(&out, batch->indices + first, (last - first) * sizeof(int32_t));
        return out;
    }
    for (uint64_t i = first; i < last; i++) {
        const int32_t id = (int32_t)nf_id_of(&join->data, (uint64_t)batch->indices[i]);
        put_bytes(&out, &id, sizeof id);
    }
    return out;
}

static char *encode_indices_64(const nf_join *join, const nf_radius_batch *batch, int64_t query_id, uint64_t first,
                               uint64_t last, char *out)
{
    (void)query_id;
    for (uint64_t i = first; i < last; i++) {
        const int64_t id = nf_id_of(&join->data, (uint64_t)batch->indices[i]);
        put_bytes(&out, &id, sizeof id);
    }
    return out;
}

static char *encode_f64(const nf_join *join, const nf_radius_batch *batch, int64_t query_id, uint64_t first,
                        uint64_t last, char *out)
{
    (void)join;
    (void)query_id;
    put_bytes(&out, (const double *)batch->distances + first, (last - first) * sizeof(double));
    return out;
}

static char *encode_f32(const nf_join *join, const nf_radius_batch *batch, int64_t query_id, uint64_t first,
                        uint64_t last, char *out)
{
    (void)join;
    (void)query_id;
    put_bytes(&out, (const float *)batch->distances + first, (last - first) * sizeof(float));
    return out;
}

/* Squared in binary64, rounded once. */
static char *encode_squares(const nf_join *join, const nf_radius_batch *batch, int64_t query_id, uint64_t first,
                            uint64_t last, char *out)
{
    (void)query_id;
    for (uint64_t i = first; i < last; i++) {
        const double distance = batch->distances_as == NF_DISTANCES_F64 ? ((const double *)batch->distances)[i]
                                                                        : (double)((const float *)batch->distances)[i];
        const float square = (float)(distance * distance);
        if (square > FLT_MAX) atomic_store_explicit(join->overflow, true, memory_order_relaxed);
        put_bytes(&out, &square, sizeof square);
    }
    return out;
}

static char *encode_ones(const nf_join *join, const nf_radius_batch *batch, int64_t query_id, uint64_t first,
                         uint64_t last, char *out)
{
    (void)join;
    (void)batch;
    (void)query_id;
    memset(out, 1, last - first);
    return out + (last - first);
}

static char *encode_pairs_32(const nf_join *join, const nf_radius_batch *batch, int64_t query_id, uint64_t first,
                             uint64_t last, char *out)
{
    for (uint64_t i = first; i < last; i++) {
        const int32_t pair[2] = {(int32_t)query_id, (int32_t)nf_id_of(&join->data, (uint64_t)batch->indices[i])};
        put_bytes(&out, pair, sizeof pair);
    }
    return out;
}

static char *encode_pairs_64(const nf_join *join, const nf_radius_batch *batch, int64_t query_id, uint64_t first,
                             uint64_t last, char *out)
{
    for (uint64_t i = first; i < last; i++) {
        const int64_t pair[2] = {query_id, nf_id_of(&join->data, (uint64_t)batch->indices[i])};
        put_bytes(&out, pair, sizeof pair);
    }
    return out;
}

static char *encode_text(const nf_join *join, const nf_radius_batch *batch, int64_t query_id, uint64_t first,
                         uint64_t last, char *out)
{
    char         head[NF_TEXT_NUMBER_MAX];
    const size_t head_bytes = (size_t)(nf_text_i64(head, query_id) - head);

    for (uint64_t i = first; i < last; i++) {
        put_bytes(&out, head, head_bytes);
        *out++ = join->separator;
        out = nf_text_i64(out, nf_id_of(&join->data, (uint64_t)batch->indices[i]));
        if (batch->distances_as == NF_DISTANCES_F64) {
            *out++ = join->separator;
            out = nf_text_f64(out, ((const double *)batch->distances)[i]);
        } else if (batch->distances_as == NF_DISTANCES_F32) {
            *out++ = join->separator;
            out = nf_text_f32(out, ((const float *)batch->distances)[i]);
        }
        *out++ = '\n';
    }
    return out;
}

static void set_array(nf_join *join, uint32_t number, nf_pair_encode_fn encode, uint32_t pair_bytes)
{
    nf_join_array *array = &join->arrays[number];
    array->encode = encode;
    array->pair_bytes = pair_bytes;
    array->variable = encode == encode_text;
    atomic_store(&array->crc, 0);
}

static bool ids_are_wide(const nf_join *join, const nf_id_map *map)
{
    return map->count > 0 && (uint64_t)nf_id_of(map, map->count - 1) > join->limits.index_max;
}

void nf_join_plan_arrays(nf_join *join)
{
    join->array_count = 1;
    if ((join->format & NF_WRITE_TEXT) != 0) {
        set_array(join, 0, encode_text, 3 * (NF_TEXT_NUMBER_MAX + 1));
    } else if (join->format == NF_WRITE_NPY) {
        const bool wide = ids_are_wide(join, &join->queries) || ids_are_wide(join, &join->data);
        set_array(join, 0, wide ? encode_pairs_64 : encode_pairs_32, wide ? 16 : 8);
    } else if (join->format == NF_WRITE_BIN) {
        set_array(join, 0, encode_indices_32, 4);
        if (join->source->distances_as == NF_DISTANCES_NONE) return;
        join->array_count = 2;
        set_array(join, 1, encode_squares, 4);
    } else {
        const uint32_t as = join->source->distances_as;
        join->array_count = 2; /* the width of the ids waits for the number of pairs */
        set_array(join, 0, encode_indices_64, 8);
        if (as == NF_DISTANCES_F64) set_array(join, 1, encode_f64, 8);
        if (as == NF_DISTANCES_F32) set_array(join, 1, encode_f32, 4);
        if (as == NF_DISTANCES_NONE) set_array(join, 1, encode_ones, 1);
    }
}

static const char *data_descr(uint32_t distances_as)
{
    if (distances_as == NF_DISTANCES_F64) return nf_npy_descr(NF_DTYPE_F64);
    return nf_npy_descr(distances_as == NF_DISTANCES_F32 ? NF_DTYPE_F32 : NF_DTYPE_I8);
}

static void take_place(nf_join_array *array, const nf_npz_member *member)
{
    array->offset = member->data_offset;
    array->bytes = member->bytes;
}

/* The members in the order in which SciPy writes them. */
static void plan_npz(nf_join *join)
{
    const uint64_t index_max = join->limits.index_max;
    const uint64_t rows = join->queries.file_rows, columns = join->data.file_rows;
    const bool     wide = rows > index_max || columns > index_max || join->pairs > index_max;
    const uint32_t index_bytes = wide ? 8 : 4;
    const char    *index_descr = nf_npy_descr(wide ? NF_DTYPE_I64 : NF_DTYPE_I32);

    set_array(join, 0, wide ? encode_indices_64 : encode_indices_32, index_bytes);
    nf_npz_init(&join->npz, join->limits.zip64);
    take_place(&join->arrays[0], nf_npz_add(&join->npz, "indices", index_descr, index_bytes, &join->pairs, 1));
    nf_npz_add(&join->npz, "indptr", index_descr, index_bytes, (const uint64_t[]){join->queries.file_rows + 1}, 1);
    nf_npz_add(&join->npz, "format", "|S3", 3, NULL, 0);
    nf_npz_add(&join->npz, "shape", nf_npy_descr(NF_DTYPE_I64), 8, (const uint64_t[]){2}, 1);
    take_place(&join->arrays[1], nf_npz_add(&join->npz, "data", data_descr(join->source->distances_as),
                                            join->arrays[1].pair_bytes, &join->pairs, 1));
}

static void plan_npy(nf_join *join)
{
    nf_join_array *array = &join->arrays[0];
    const nf_dtype type = array->pair_bytes == 16 ? NF_DTYPE_I64 : NF_DTYPE_I32;

    join->header_bytes = nf_npy_header(join->header, nf_npy_descr(type), (const uint64_t[]){join->pairs, 2}, 2);
    array->offset = join->header_bytes;
    array->bytes = join->pairs * array->pair_bytes;
}

/* Header, one count per row of the query file, then the arrays. */
static nf_status plan_bin(nf_join *join)
{
    const uint64_t most = join->limits.index_max;

    if (join->pairs > most || join->queries.file_rows > most || ids_are_wide(join, &join->data)) {
        return nf_fail(join->ctx, NF_ERR_LIMIT,
                       "%" PRIu64 " pairs of %" PRIu64 " queries: .bin holds queries, pairs and ids up to %" PRIu64
                       "; .npz holds more",
                       join->pairs, join->queries.file_rows, most);
    }
    join->arrays[0].offset = 8 + 4 * join->queries.file_rows;
    join->arrays[0].bytes = 4 * join->pairs;
    join->arrays[1].offset = join->arrays[0].offset + join->arrays[0].bytes;
    join->arrays[1].bytes = join->array_count == 2 ? 4 * join->pairs : 0;
    return NF_OK;
}

nf_status nf_join_plan_file(nf_join *join, uint64_t pairs, uint64_t text_bytes)
{
    if (pairs > (uint64_t)1 << 42) { /* 2^46 bytes: CRC tables and offsets end beyond that */
        return nf_fail(join->ctx, NF_ERR_LIMIT, "%" PRIu64 " pairs are more than one file can take", pairs);
    }
    join->pairs = pairs;
    if (join->format == NF_WRITE_NPZ) plan_npz(join);
    if (join->format == NF_WRITE_NPY) plan_npy(join);
    if (join->format == NF_WRITE_BIN) NF_TRY(plan_bin(join));
    if (join->arrays[0].variable) join->arrays[0].bytes = text_bytes;
    return NF_OK;
}
