/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Index files that are made to do harm, with checksums that are right, and queries at the edge of what numbers can be.
 *
 * Files of a terabyte are nothing but a hole between header, table and footer. Opened by mapping, such a file must be
 * refused by what its sections say, and by reading, as more than there is memory: neither may take memory for it first.
 */
#include "store_helper.h"

#include <math.h>

#include "ivf/ivf_file.h"
#include "nearfield/ivf.h"
#include "store/store_layout.h"

#define TERABYTE ((uint64_t)1 << 40)

/* An allocator that has 64 MB and knows the most that was taken. */
typedef struct small_heap {
    size_t live, peak;
} small_heap;

static void *small_alloc(void *user, size_t size, size_t align)
{
    small_heap *heap = user;
    void       *block = NULL;
    if (heap->live + size > (size_t)64 << 20 || posix_memalign(&block, align, size) != 0) return NULL;
    heap->live += size;
    if (heap->live > heap->peak) heap->peak = heap->live;
    return block;
}

static void small_release(void *user, void *block, size_t size, size_t align)
{
    small_heap *heap = user;
    (void)align;
    heap->live -= size;
    free(block);
}

static nf_context *small_context(small_heap *heap)
{
    nf_context_params params;
    nf_context       *ctx = NULL;
    nf_context_params_init(&params);
    params.threads = 1;
    params.memory = (uint64_t)1 << 30;
    params.allocator = (nf_allocator){small_alloc, small_release, heap};
    assert_int_equal(nf_context_create(&params, &ctx, NULL), NF_OK);
    return ctx;
}

/* What the section of parameters says, in its order (docs/formats.md). */
typedef struct claim {
    const char *name;
    uint64_t    rows;
    uint32_t    dims, lists, bits, rotation;
    uint64_t    bytes[NF_IVF_SECTIONS + 1]; /* of section type i; 0: not there */
    const char *text;                       /* what mapping says */
} claim;

static void put_params(uint8_t *params, const claim *told)
{
    const uint32_t fields[] = {told->dims, (told->dims + 7) / 8 * 8, told->lists, told->bits, 0, told->rotation,
                               0, 0, 0, NF_DTYPE_F32, 0, 0};
    memset(params, 0, 64);
    set_number(params, 8, told->rows);
    set_number(params + 8, 8, 1);
    for (int i = 0; i < 12; i++) set_number(params + 16 + 4 * i, 4, fields[i]);
}

static nf_sealed_layout lay_out(const claim *told, const uint8_t *params)
{
    nf_sealed_layout layout = {.major = 1};
    for (uint32_t type = 1; type <= NF_IVF_SECTIONS; type++) {
        if (told->bytes[type] == 0) continue;
        layout.entries[layout.count++] =
            (nf_sealed_entry){.type = type, .flags = NF_SEALED_REQUIRED, .bytes = told->bytes[type]};
    }
    layout.entries[0].checksum = XXH3_64bits(params, 64);
    layout.entries[layout.count++] = (nf_sealed_entry){.type = SUMS_TYPE, .flags = NF_SEALED_REQUIRED};
    layout.entries[layout.count - 1].bytes = nf_sealed_all_chunks(&layout) * 8;
    assert_true(nf_sealed_arrange(&layout));
    layout.file_id = nf_sealed_content_id(&layout);
    return layout;
}

/* Writes the file; false where the file system has no room for such a hole. */
static bool write_claim(const char *path, const claim *told)
{
    uint8_t                params[64], head[NF_SEALED_MAX_HEAD_BYTES], footer[FOOTER];
    put_params(params, told);
    const nf_sealed_layout layout = lay_out(told, params);
    const int              fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    nf_sealed_encode_head(&layout, head);
    nf_sealed_encode_footer(&layout, footer);
    const size_t head_bytes = nf_sealed_head_bytes(layout.count);
    const bool   done = ftruncate(fd, (off_t)layout.bytes) == 0 &&
                      pwrite(fd, head, head_bytes, 0) == (ssize_t)head_bytes &&
                      pwrite(fd, params, 64, (off_t)layout.entries[0].offset) == 64 &&
                      pwrite(fd, footer, FOOTER, (off_t)(layout.bytes - FOOTER)) == FOOTER;
    assert_int_equal(close(fd), 0);
    return done;
}

static const claim claims[] = {
    {.name = "blocks of a terabyte for 32 rows", .rows = 32, .dims = 8, .lists = 1, .bits = 1,
     .bytes = {0, 64, 32, 4, 32, 16, TERABYTE, 0, 128}, .text = "section lists"},
    {.name = "centroids of a terabyte", .rows = 1 << 24, .dims = 8, .lists = 1 << 24, .bits = 1,
     .bytes = {0, 64, 32, 4, TERABYTE, ((uint64_t)8 << 24) + 8, 352 << 10, 0, (uint64_t)4 << 24},
     .text = "section centroids has"},
    {.name = "the most rows", .rows = 0x7fffffff, .dims = 512, .lists = 1, .bits = 9,
     .bytes = {0, 64, 2048, 256, 2048, 16, TERABYTE / 8, (uint64_t)0x7fffffff * 520, (uint64_t)0x7fffffff * 4},
     .text = "section lists"},
};

static void check_claim(const claim *told)
{
    char folder[64], path[128];
    make_folder(folder);
    path_in(path, folder, "huge.nf");
    if (!write_claim(path, told)) {
        print_message("%s: no room for a hole\n", told->name);
        remove_folder(folder);
        return;
    }
    for (uint32_t map = 0; map < 2; map++) {
        small_heap         heap = {0};
        nf_context        *ctx = small_context(&heap);
        nf_ivf_open_params params;
        nf_ivf_index      *index = NULL;
        nf_ivf_open_params_init(&params);
        params.map = map;
        params.verify = NF_VERIFY_STRUCTURE;
        assert_int_equal(nf_ivf_open(ctx, path, &params, &index), map ? NF_ERR_DAMAGED : NF_ERR_LIMIT);
        assert_null(index);
        if (map) assert_error_has(ctx, told->text);
        assert_in_range(heap.peak, 0, 1 << 20);
        nf_context_destroy(ctx);
        assert_int_equal(heap.live, 0);
    }
    remove_folder(folder);
}

static void test_claims(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof claims / sizeof claims[0]; i++) check_claim(&claims[i]);
}

/* ---- golden files with changed values ---- */

static contents read_golden(const char *name)
{
    const char *source = getenv("SOURCE_DIR");
    char        path[1024];
    snprintf(path, sizeof path, "%s/tests/data/%s", source != NULL ? source : ".", name);
    return read_file(path);
}

/* Changes values of a section and makes the checksums right that are looked at without full verification. */
static void change_values(const contents *file, uint32_t type, uint64_t first, uint64_t count, float value)
{
    for (uint32_t i = 0; i < number_at(file->data + 48, 4); i++) {
        uint8_t *entry = entry_at(file, i);
        if (number_at(entry, 4) != type) continue;
        uint8_t *section = file->data + number_at(entry + 8, 8);
        for (uint64_t k = first; k < first + count; k++) memcpy(section + 4 * k, &value, 4);
        set_number(entry + 24, 8, XXH3_64bits(section, number_at(entry + 16, 8)));
    }
    reseal(file);
}

static nf_status open_bytes(fixture *all, const contents *file, nf_ivf_index **index)
{
    nf_ivf_open_params params;
    nf_ivf_open_params_init(&params);
    params.verify = NF_VERIFY_STRUCTURE;
    put_bytes(all->path, file->data, file->size);
    return nf_ivf_open(all->ctx, all->path, &params, index);
}

/* Mean, centroids and matrix: finite is not enough, since a rotation adds them up. */
static void test_impossible_values(void **state)
{
    static const struct {
        const char *name;
        uint32_t    type;
        float       value;
        const char *text;
    } cases[] = {
        {"ivf_v1_0_l2.nfi", 2, 1e17f, "section mean: value 3 is 1e+17"},
        {"ivf_v1_0_l2.nfi", 2, -3e38f, "section mean: value 3 is -3e+38"},
        {"ivf_v1_0_l2.nfi", 2, NAN, "section mean: value 3 is"},
        {"ivf_v1_0_l2.nfi", 4, 1e20f, "section centroids: value 3 is 1e+20"},
        {"ivf_v1_0_l2.nfi", 4, INFINITY, "section centroids: value 3 is inf"},
        {"ivf_v1_0_cosine.nfi", 3, -2.5f, "section rotation: value 3 is -2.5"},
    };
    fixture *all = *state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        contents      file = read_golden(cases[i].name);
        nf_ivf_index *index = NULL;
        change_values(&file, cases[i].type, 3, 1, cases[i].value);
        assert_int_equal(open_bytes(all, &file, &index), NF_ERR_DAMAGED);
        assert_error_has(all->ctx, cases[i].text);
        free(file.data);
    }
}

static void search_all(fixture *all, const nf_ivf_index *index, const float *query, uint32_t rerank, int64_t *ids,
                       float *distances)
{
    const nf_matrix      queries = {.data = query, .rows = 1, .dims = 20, .dtype = NF_DTYPE_F32};
    nf_ivf_search_params params;
    nf_ivf_search_params_init(&params);
    params.k = 100;
    params.probes = 5;
    params.rerank = rerank;
    params.epsilon0 = INFINITY;
    assert_int_equal(nf_ivf_search(all->ctx, index, &queries, &params, ids, distances, NULL, NULL), NF_OK);
}

/* Kept rows 0 and 1 of the file are NaN and infinite: they come last, and the others as they should. */
static void test_vectors_without_numbers(void **state)
{
    fixture      *all = *state;
    contents      file = read_golden("ivf_v1_0_l2.nfi");
    nf_ivf_index *index = NULL;
    int64_t       ids[100];
    float         distances[100], query[20] = {0};
    change_values(&file, 10, 0, 20, NAN);
    change_values(&file, 10, 20, 20, -INFINITY);
    assert_int_equal(open_bytes(all, &file, &index), NF_OK);
    search_all(all, index, query, 100, ids, distances);
    for (int i = 0; i < 98; i++) assert_true(isfinite(distances[i]) && distances[i] > 1);
    assert_true(isinf(distances[98]) && isinf(distances[99]) && ids[98] >= 0 && ids[99] > ids[98]);
    nf_ivf_release(index);
    free(file.data);
}

/* With the mean at zero and a query as small as numbers can be, every distance is about the length of the row. */
static void test_smallest_query(void **state)
{
    fixture      *all = *state;
    float         data[40][20], query[20];
    nf_ivf_index *index = NULL;
    int64_t       ids[100];
    float         distances[100];
    nf_ivf_params params;
    nf_matrix     rows = {.data = data, .rows = 40, .dims = 20, .dtype = NF_DTYPE_F32};
    for (int i = 0; i < 40; i++) {
        for (int k = 0; k < 20; k++) data[i][k] = (float)(i % 2 == 0 ? 1 : -1) * (float)(1 + (i / 2 * 7 + k * 5) % 11);
    }
    nf_ivf_params_init(&params);
    params.lists = 1;
    params.bits = 9;
    params.train_rows = 1000;
    assert_int_equal(nf_ivf_build(all->ctx, &rows, &params, &index, NULL), NF_OK);
    for (int k = 0; k < 20; k++) query[k] = k == 3 ? 0.0f : 1e-42f;
    search_all(all, index, query, 0, ids, distances);
    for (int i = 0; i < 40; i++) {
        double square = 0;
        for (int k = 0; k < 20; k++) square += (double)data[ids[i]][k] * data[ids[i]][k];
        assert_true(fabs((double)distances[i] - sqrt(square)) < 1e-4 * sqrt(square));
    }
    nf_ivf_release(index);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_claims),
        cmocka_unit_test_setup_teardown(test_impossible_values, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_vectors_without_numbers, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_smallest_query, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
