/* SPDX-License-Identifier: Apache-2.0 */
/* Index files: save and open give the same index and the same bytes; wrong files are refused, whoever made them. */
#include "ivf/ivf_file.h"
#include "ivf_helper.h"
#include "memory_helper.h"

enum { SECTIONS = NF_IVF_SECTIONS, MOST = 1 << 16 };

static nf_ivf_index *small_index(nf_context *ctx, uint32_t bits, uint32_t rotation, bool keep, const int64_t *ids,
                                 uint32_t recall)
{
    nf_matrix     data = ivf_mixture(70, 6, 5, 2);
    nf_ivf_params params;
    nf_ivf_params_init(&params);
    params.lists = 4;
    params.bits = bits;
    params.rotation = rotation;
    params.keep_vectors = keep;
    params.ids = ids;
    params.recall_rows = recall;
    nf_ivf_index *index = ivf_build(ctx, &data, &params);
    exact_free(&data);
    return index;
}

/* The ten nearest of some queries, for comparison; rerank where there are vectors. */
static void ask(nf_context *ctx, const nf_ivf_index *index, int64_t *ids, float *distances, bool must)
{
    nf_matrix            queries = ivf_mixture(20, 6, 5, 7);
    nf_ivf_info          info = {.struct_size = sizeof info};
    nf_ivf_search_params how;
    nf_ivf_describe(index, &info);
    nf_ivf_search_params_init(&how);
    how.probes = 3;
    how.rerank = info.keep_vectors != 0 ? 20 : 0;
    const nf_status status = nf_ivf_search(ctx, index, &queries, &how, ids, distances, NULL, NULL);
    if (must) assert_int_equal(status, NF_OK);
    exact_free(&queries);
}

static nf_status try_open(nf_context *ctx, const char *path, bool map, nf_verify verify, nf_ivf_index **index)
{
    nf_ivf_open_params params;
    nf_ivf_open_params_init(&params);
    params.map = map;
    params.verify = (uint32_t)verify;
    return nf_ivf_open(ctx, path, &params, index);
}

/* Saved, opened in every way, asked, saved again. */
static void check_round_trip(nf_context *ctx, nf_ivf_index *built)
{
    char        path[300], again[300];
    size_t      bytes, bytes_again;
    int64_t     ids[200], ids_again[200];
    float       distances[200], distances_again[200];
    nf_ivf_info info = {.struct_size = sizeof info}, info_again = {.struct_size = sizeof info};
    ivf_path(path, sizeof path, "one.nfx");
    ivf_path(again, sizeof again, "two.nfx");
    assert_int_equal(nf_ivf_save(ctx, built, path, 1), NF_OK);
    unsigned char *content = ivf_read_file(path, &bytes);
    nf_ivf_describe(built, &info);
    assert_int_equal(info.bytes, bytes);
    ask(ctx, built, ids, distances, true);
    for (int way = 0; way < 4; way++) {
        nf_ivf_index *opened = NULL;
        assert_int_equal(
            try_open(ctx, path, (way & 1) != 0, (way & 2) != 0 ? NF_VERIFY_STRUCTURE : NF_VERIFY_FULL, &opened), NF_OK);
        nf_ivf_describe(opened, &info_again);
        assert_memory_equal(&info, &info_again, sizeof info);
        ask(ctx, opened, ids_again, distances_again, true);
        assert_memory_equal(ids, ids_again, sizeof ids);
        assert_memory_equal(distances, distances_again, sizeof distances);
        for (uint32_t i = 0; i < info.recall_points; i++) {
            uint32_t probes, probes_again;
            double   recall, recall_again;
            assert_int_equal(nf_ivf_recall_point(built, i, &probes, &recall), NF_OK);
            assert_int_equal(nf_ivf_recall_point(opened, i, &probes_again, &recall_again), NF_OK);
            assert_true(probes == probes_again && recall == recall_again);
        }
        assert_int_equal(nf_ivf_save(ctx, opened, again, 0), NF_OK);
        nf_ivf_release(opened);
        unsigned char *content_again = ivf_read_file(again, &bytes_again);
        assert_int_equal(bytes_again, bytes);
        assert_memory_equal(content_again, content, bytes);
        free(content_again);
    }
    nf_ivf_release(built);
    free(content);
    unlink(path);
    unlink(again);
}

static void test_round_trips(void **state)
{
    (void)state;
    nf_context *ctx = exact_context(NF_ISA_AUTO, 2, 0);
    int64_t     ids[70];
    for (int64_t i = 0; i < 70; i++) ids[i] = 1000 - i;
    for (uint32_t bits = 1; bits <= 9; bits += 2)
        check_round_trip(ctx, small_index(ctx, bits, bits / 2 % 2, false, NULL, 30));
    check_round_trip(ctx, small_index(ctx, 1, 0, true, NULL, 0));
    check_round_trip(ctx, small_index(ctx, 4, 1, true, ids, 10));
    ids[7] = INT64_MAX;
    check_round_trip(ctx, small_index(ctx, 4, 1, false, ids, 10));
    nf_context_destroy(ctx);
}

/* Cut anywhere, or longer. */
static void test_truncated(void **state)
{
    (void)state;
    nf_context *ctx = exact_context(NF_ISA_AUTO, 1, 0);
    char        path[300];
    size_t      bytes;
    ivf_path(path, sizeof path, "cut.nfx");
    nf_ivf_index *index = small_index(ctx, 3, 0, false, NULL, 10);
    assert_int_equal(nf_ivf_save(ctx, index, path, 0), NF_OK);
    nf_ivf_release(index);
    unsigned char *content = ivf_read_file(path, &bytes);
    for (size_t length = 0; length < bytes + 2; length += length < 400 || length + 100 > bytes ? 1 : 61) {
        if (length == bytes) continue;
        content[bytes] = 0;
        ivf_write_file(path, content, length > bytes ? bytes + 1 : length);
        for (int way = 0; way < 4; way++) {
            index = NULL;
            assert_true(try_open(ctx, path, (way & 1) != 0, (nf_verify)(way / 2), &index) < 0);
            assert_null(index);
        }
    }
    free(content);
    unlink(path);
    nf_context_destroy(ctx);
}

/* One bit changed anywhere: FULL refuses; STRUCTURE refuses or gives an index that can be asked. */
static void test_bit_flips(void **state)
{
    (void)state;
    nf_context *ctx = exact_context(NF_ISA_AUTO, 1, 0);
    char        path[300];
    size_t      bytes;
    int64_t     ids[200];
    float       distances[200];
    ivf_path(path, sizeof path, "flip.nfx");
    nf_ivf_index *index = small_index(ctx, 4, 0, true, NULL, 10);
    assert_int_equal(nf_ivf_save(ctx, index, path, 0), NF_OK);
    nf_ivf_release(index);
    unsigned char *content = ivf_read_file(path, &bytes);
    for (size_t at = 0; at < bytes; at += at < 400 ? 1 : 13) {
        content[at] ^= (unsigned char)(1u << (at % 8));
        ivf_write_file(path, content, bytes);
        index = NULL;
        assert_true(try_open(ctx, path, at % 2 != 0, NF_VERIFY_FULL, &index) < 0);
        if (try_open(ctx, path, at % 2 == 0, NF_VERIFY_STRUCTURE, &index) >= 0) {
            ask(ctx, index, ids, distances, false);
            nf_ivf_release(index);
        }
        content[at] ^= (unsigned char)(1u << (at % 8));
    }
    free(content);
    unlink(path);
    nf_context_destroy(ctx);
}

/* ---- files with right checksums and wrong contents ---- */

typedef struct forgery {
    nf_context       *ctx;
    nf_memory        *memory;
    char              path[300];
    nf_sealed_section sections[SECTIONS + 1];
    uint32_t          count;
    unsigned char     bytes[SECTIONS + 1][MOST]; /* copies that may be changed */
} forgery;

/* Takes an index's file apart. */
static void take_apart(forgery *all, nf_ivf_index *index)
{
    nf_sealed_file *file = NULL;
    assert_int_equal(nf_ivf_save(all->ctx, index, all->path, 0), NF_OK);
    nf_ivf_release(index);
    assert_int_equal(nf_sealed_open(all->ctx, all->memory, all->path, false, NF_VERIFY_FULL, &file), NF_OK);
    all->count = 0;
    for (uint32_t type = 1; type <= SECTIONS; type++) {
        const nf_sealed_section *section = nf_sealed_find(file, type);
        if (section == NULL) continue;
        assert_true(section->bytes < MOST);
        memcpy(all->bytes[all->count], section->data, section->bytes);
        all->sections[all->count] = *section;
        all->sections[all->count].data = all->bytes[all->count];
        all->count++;
    }
    nf_sealed_close(file);
}

static unsigned char *section_of(forgery *all, uint32_t type, nf_sealed_section **section)
{
    for (uint32_t i = 0; i < all->count; i++) {
        if (all->sections[i].type != type) continue;
        if (section != NULL) *section = &all->sections[i];
        return all->bytes[i];
    }
    fail();
    return NULL;
}

static void expect(forgery *all, nf_verify verify, nf_status expected, const char *text)
{
    nf_ivf_index *index = NULL;
    assert_int_equal(nf_sealed_write(all->ctx, all->path, all->sections, all->count, false, NULL), NF_OK);
    const nf_status status = try_open(all->ctx, all->path, false, verify, &index);
    if (status != expected) print_error("%s: %d %s\n", text, (int)status, nf_context_error(all->ctx)->text);
    assert_int_equal(status, expected);
    if (expected < 0) {
        assert_null(index);
        assert_non_null(strstr(nf_context_error(all->ctx)->text, text));
    }
    nf_ivf_release(index);
}

/* Changes bytes, expects FULL to refuse the file, and STRUCTURE where it must; and changes them back. */
static void expect_change(forgery *all, uint32_t type, size_t at, const void *value, size_t size, bool structure,
                          const char *text)
{
    unsigned char *bytes = section_of(all, type, NULL), before[16];
    memcpy(before, bytes + at, size);
    memcpy(bytes + at, value, size);
    expect(all, NF_VERIFY_FULL, NF_ERR_DAMAGED, text);
    if (structure) expect(all, NF_VERIFY_STRUCTURE, NF_ERR_DAMAGED, text);
    memcpy(bytes + at, before, size);
}

static forgery *forge(bool keep, const int64_t *ids)
{
    forgery *all = calloc(1, sizeof *all);
    all->ctx = exact_context(NF_ISA_AUTO, 1, 0);
    all->memory = nf_memory_create(NULL, 0);
    ivf_path(all->path, sizeof all->path, "forged.nfx");
    take_apart(all, small_index(all->ctx, 4, 1, keep, ids, 10));
    return all;
}

static void end_forgery(forgery *all)
{
    unlink(all->path);
    nf_memory_release(all->memory);
    nf_context_destroy(all->ctx);
    free(all);
}

/* Every parameter out of its range, or in its range but not what the sections hold. */
static void test_forged_params(void **state)
{
    (void)state;
    forgery *all = forge(true, NULL);
    static const struct {
        size_t   at;
        uint32_t value;
    } wrong[] = {{0, 0},   {4, 0x80000000u},  {0, 71}, {0, 69}, {16, 0},  {16, 65537},      {16, 7},
                 {16, 5},  {20, 16},          {20, 0}, {24, 0}, {24, 71}, {24, 3},          {24, 5},
                 {28, 0},  {28, 10},          {28, 5}, {28, 1}, {32, 3},  {36, 2},          {36, 0},
                 {40, 2},  {40, 1},           {44, 2}, {48, 2}, {48, 0},  {52, 0},          {52, 12},
                 {52, 11}, {56, 0xffffffffu}, {56, 0}, {56, 4}, {60, 1},  {0, 0xffffffffu}, {24, 0xffffffffu}};
    expect(all, NF_VERIFY_FULL, NF_OK, "");
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        if (memcmp(section_of(all, NF_IVF_SECTION_PARAMS, NULL) + wrong[i].at, &wrong[i].value, 4) == 0) continue;
        expect_change(all, NF_IVF_SECTION_PARAMS, wrong[i].at, &wrong[i].value, 4, true, "");
    }
    end_forgery(all);
}

/* Every section missing, shorter or longer. */
static void test_forged_sizes(void **state)
{
    (void)state;
    forgery *all = forge(true, NULL);
    for (uint32_t i = 0; i < all->count; i++) {
        nf_sealed_section *section = &all->sections[i];
        section->bytes++;
        expect(all, NF_VERIFY_STRUCTURE, NF_ERR_DAMAGED, nf_ivf_section_name(section->type));
        section->bytes -= 2;
        expect(all, NF_VERIFY_STRUCTURE, NF_ERR_DAMAGED, nf_ivf_section_name(section->type));
        section->bytes++;
        const nf_sealed_section taken = *section;
        memmove(section, section + 1, (all->count - i - 1) * sizeof *section);
        all->count--;
        expect(all, NF_VERIFY_STRUCTURE, NF_ERR_DAMAGED, nf_ivf_section_name(taken.type));
        memmove(section + 1, section, (all->count - i) * sizeof *section);
        *section = taken;
        all->count++;
    }
    expect(all, NF_VERIFY_FULL, NF_OK, "");
    end_forgery(all);
}

/* Lists that overlap, leave the rows, or end too early; values that are no numbers. */
static void test_forged_tables(void **state)
{
    (void)state;
    forgery       *all = forge(false, NULL);
    const uint64_t one = 1, many = 71, huge = UINT64_MAX, none = 0;
    const uint32_t nan = 0x7fc00000u, infinite = 0xff800000u, zero = 0, seven = 7;
    const double   two = 2.0, no = (double)NAN;
    expect_change(all, NF_IVF_SECTION_LISTS, 0, &one, 8, true, "first list");
    expect_change(all, NF_IVF_SECTION_LISTS, 8, &many, 8, true, "list 0");
    expect_change(all, NF_IVF_SECTION_LISTS, 8, &huge, 8, true, "list 0");
    expect_change(all, NF_IVF_SECTION_LISTS, 24, &none, 8, true, "list 2");
    expect_change(all, NF_IVF_SECTION_LISTS, 32, &huge, 8, true, "list 3");
    expect_change(all, NF_IVF_SECTION_MEAN, 4, &nan, 4, true, "section mean: value 1");
    expect_change(all, NF_IVF_SECTION_CENTROIDS, 12, &infinite, 4, true, "section centroids: value 3");
    expect_change(all, NF_IVF_SECTION_ROTATION, 0, &nan, 4, true, "section rotation: value 0");
    expect_change(all, NF_IVF_SECTION_RECALL, 0, &zero, 4, true, "section recall: entry 0");
    expect_change(all, NF_IVF_SECTION_RECALL, 0, &seven, 4, true, "section recall: entry 0");
    expect_change(all, NF_IVF_SECTION_RECALL, 8, &two, 8, true, "section recall: entry 0");
    expect_change(all, NF_IVF_SECTION_RECALL, 8, &no, 8, true, "section recall: entry 0");
    end_forgery(all);
}

/* What FULL looks at beyond that. */
static void test_forged_rows(void **state)
{
    (void)state;
    int64_t ids[70];
    for (int64_t i = 0; i < 70; i++) ids[i] = ((int64_t)1 << 40) + i;
    forgery       *all = forge(true, NULL);
    const uint32_t nan = 0x7fc00000u, number = 70;
    const uint64_t negative = UINT64_MAX;
    const uint16_t wide = 0x7f80u, below = 0xbf80u;
    const size_t   codes = 8 * 4, block = nf_ivf_block_bytes(8);
    uint64_t       starts[5];
    memcpy(starts, section_of(all, NF_IVF_SECTION_LISTS, NULL), sizeof starts);
    assert_true(starts[1] > 0 && starts[1] < 32); /* the first block has filling behind its rows */
    expect_change(all, NF_IVF_SECTION_BLOCKS, codes, &nan, 4, false, "block 0");
    expect_change(all, NF_IVF_SECTION_BLOCKS, codes + 128, &nan, 4, false, "block 0");
    expect_change(all, NF_IVF_SECTION_BLOCKS, codes + 256, &wide, 2, false, "block 0");
    expect_change(all, NF_IVF_SECTION_BLOCKS, codes + 256, &below, 2, false, "block 0");
    expect_change(all, NF_IVF_SECTION_BLOCKS, 31, "\1", 1, false, "block 0");
    expect_change(all, NF_IVF_SECTION_BLOCKS, codes + 124, "\1", 1, false, "block 0");
    expect_change(all, NF_IVF_SECTION_BLOCKS, block - 1, "\1", 1, false, "block 0");
    expect_change(all, NF_IVF_SECTION_RECORDS, 0, &nan, 4, false, "record 0");
    expect_change(all, NF_IVF_SECTION_RECORDS, nf_ivf_record_bytes(8, 4) * 69 + 4, &nan, 4, false, "record 69");
    expect_change(all, NF_IVF_SECTION_IDS, 4, &number, 4, false, "section ids: id 1 is 70");
    expect_change(all, NF_IVF_SECTION_VECTORS, 6 * 4 * 5 + 8, &nan, 4, false, "section vectors: row 5");
    end_forgery(all);
    all = forge(false, ids);
    expect_change(all, NF_IVF_SECTION_IDS, 8, &negative, 8, false, "section ids: id 1 is -1");
    end_forgery(all);
}

/* A section of a later version: ignored, or refused where it says that it must be known. */
static void test_unknown_sections(void **state)
{
    (void)state;
    forgery *all = forge(false, NULL);
    all->sections[all->count++] = (nf_sealed_section){.type = 99, .data = "later", .bytes = 5};
    expect(all, NF_VERIFY_FULL, NF_OK, "");
    all->sections[all->count - 1].flags = NF_SEALED_REQUIRED;
    expect(all, NF_VERIFY_FULL, NF_ERR_VERSION, "section 99");
    end_forgery(all);
}

static void test_refused(void **state)
{
    (void)state;
    nf_context        *ctx = exact_context(NF_ISA_AUTO, 1, 0);
    nf_ivf_index      *index = NULL;
    nf_ivf_open_params params;
    char               path[300];
    ivf_path(path, sizeof path, "none.nfx");
    assert_int_equal(nf_ivf_open(ctx, path, NULL, &index), NF_ERR_IO);
    assert_int_equal(nf_ivf_open(ctx, NULL, NULL, &index), NF_ERR_ARGUMENT);
    nf_ivf_open_params_init(&params);
    params.verify = 2;
    assert_int_equal(nf_ivf_open(ctx, path, &params, &index), NF_ERR_ARGUMENT);
    ivf_write_file(path, "no index, but longer than the header of one ................................................",
                   90);
    assert_int_equal(nf_ivf_open(ctx, path, NULL, &index), NF_ERR_FORMAT);
    assert_null(index);
    unlink(path);
    assert_int_equal(nf_ivf_save(ctx, NULL, path, 0), NF_ERR_ARGUMENT);
    index = small_index(ctx, 2, 0, false, NULL, 0);
    assert_int_equal(nf_ivf_save(ctx, index, NULL, 0), NF_ERR_ARGUMENT);
    assert_int_equal(nf_ivf_save(ctx, index, "/nowhere/at/all.nfx", 0), NF_ERR_IO);
    nf_ivf_release(index);
    nf_context_destroy(ctx);
}

/* Every allocation of save and open fails once. */
static void test_faults(void **state)
{
    (void)state;
    char        path[300];
    nf_context *plain = exact_context(NF_ISA_AUTO, 1, 0);
    ivf_path(path, sizeof path, "faults.nfx");
    nf_ivf_index *built = small_index(plain, 4, 1, true, NULL, 5);
    assert_int_equal(nf_ivf_save(plain, built, path, 0), NF_OK);
    for (int map = 0; map <= 1; map++) {
        for (long at = 1;; at++) {
            memory_hook       hook = {0};
            nf_context_params params;
            nf_context       *ctx = NULL;
            nf_ivf_index     *index = NULL;
            nf_context_params_init(&params);
            params.threads = 2;
            params.allocator = memory_hook_allocator(&hook);
            assert_int_equal(nf_context_create(&params, &ctx, NULL), NF_OK);
            hook.fail_at = hook.calls + at;
            nf_status status = try_open(ctx, path, map != 0, NF_VERIFY_FULL, &index);
            if (status >= 0) status = nf_ivf_save(ctx, index, path, 0);
            nf_ivf_release(index);
            const bool reached = hook.calls >= hook.fail_at;
            nf_context_destroy(ctx);
            assert_int_equal(hook.live_blocks, 0);
            assert_int_equal(status, reached ? NF_ERR_MEMORY : NF_OK);
            if (!reached) break;
        }
    }
    unlink(path);
    nf_ivf_release(built);
    nf_context_destroy(plain);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trips),  cmocka_unit_test(test_truncated),
        cmocka_unit_test(test_bit_flips),    cmocka_unit_test(test_forged_params),
        cmocka_unit_test(test_forged_sizes), cmocka_unit_test(test_forged_tables),
        cmocka_unit_test(test_forged_rows),  cmocka_unit_test(test_unknown_sections),
        cmocka_unit_test(test_refused),      cmocka_unit_test(test_faults),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
