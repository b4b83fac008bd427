/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Damaged files and missing memory. Files of every format are cut at every byte, and continued by one: each must be
 * refused with one line of text, or be a shorter file that is right by its format. Every byte of the small ones is
 * changed to other values: anything may be said, but the readers stay inside the bytes (seen by the sanitizers, the
 * blocks have the exact size). Then the n-th allocation fails, for every n, and nothing is left allocated.
 */
#include <stdatomic.h>

#include "io_read_helper.h"

/* Which cut files are right. */
typedef bool (*legal_cut_fn)(size_t size);

typedef struct sample {
    const char  *name;
    bytes        file;
    legal_cut_fn legal; /* NULL: none */
    bool         text;
} sample;

static bool whole_records_of_12(size_t size)
{
    return size > 0 && size % 12 == 0;
}

static bool whole_records_of_6(size_t size)
{
    return size > 0 && size % 6 == 0;
}

static bool whole_rows_of_8(size_t size)
{
    return size % 8 == 0;
}

static void add_values(bytes *file, size_t count, size_t size)
{
    for (size_t i = 0; i < count; i++) {
        if (size == 4) {
            add_f32(file, (float)i + 0.5f);
        } else {
            add_number(file, i + 1, size);
        }
    }
}

static void make_npy(bytes *file, int version, const char *header)
{
    add(file, "\x93NUMPY", 6);
    add_number(file, (uint64_t)version, 1);
    add_number(file, 0, 1);
    add_number(file, strlen(header), version == 1 ? 2 : 4);
    add(file, header, strlen(header));
}

static void make_vecs(bytes *file, size_t size)
{
    for (int row = 0; row < 4; row++) {
        add_number(file, 2, 4);
        add_values(file, 2, size);
    }
}

static void make_bin(bytes *file, size_t header, size_t size)
{
    add_number(file, 4, header / 2);
    add_number(file, 2, header / 2);
    add_values(file, 8, size);
}

#define TEXT_LINES "1,2.5\n-3,1e2\n40,nan\n5,6\n"
#define SAMPLES 16

/* One file of every kind; returns how many. */
static size_t make_samples(sample *samples)
{
    size_t  count = 0;
    sample *s = samples;
    memset(samples, 0, SAMPLES * sizeof *samples);
    s[count].name = "v1.npy";
    make_npy(&s[count].file, 1, "{'descr': '<f4', 'fortran_order': False, 'shape': (4, 2), }  \n");
    add_values(&s[count++].file, 8, 4);
    s[count].name = "v2.npy";
    make_npy(&s[count].file, 2, "{'descr': '>i2', 'fortran_order': True, 'shape': (4, 2), }\n");
    add_values(&s[count++].file, 8, 2);
    s[count] = (sample){.name = "a.fvecs", .legal = whole_records_of_12};
    make_vecs(&s[count++].file, 4);
    s[count] = (sample){.name = "a.ivecs", .legal = whole_records_of_12};
    make_vecs(&s[count++].file, 4);
    s[count] = (sample){.name = "a.bvecs", .legal = whole_records_of_6};
    make_vecs(&s[count++].file, 1);
    s[count].name = "a.fbin";
    make_bin(&s[count++].file, 8, 4);
    s[count].name = "b.fbin";
    make_bin(&s[count++].file, 16, 4);
    s[count].name = "a.u8bin";
    make_bin(&s[count++].file, 8, 1);
    s[count].name = "b.i8bin";
    make_bin(&s[count++].file, 16, 1);
    s[count].name = "a.f16bin";
    make_bin(&s[count++].file, 8, 2);
    s[count].name = "a.ibin";
    make_bin(&s[count++].file, 8, 4);
    s[count] = (sample){.name = "a.raw", .legal = whole_rows_of_8};
    add_values(&s[count++].file, 8, 4);
    s[count] = (sample){.name = "a.csv", .text = true};
    add(&s[count].file, "\"x\",'y'\r\n" TEXT_LINES, strlen("\"x\",'y'\r\n" TEXT_LINES));
    count++;
    s[count] = (sample){.name = "a.txt", .text = true};
    add(&s[count].file, "# c\n1 2.25\n \"7\" '8'\n9 -inf", strlen("# c\n1 2.25\n \"7\" '8'\n9 -inf"));
    count++;
    return count;
}

static nf_read_params params_for(const sample *s)
{
    nf_read_params params = default_params();
    if (strstr(s->name, ".raw")) params.dims = 2;
    return params;
}

/* Reads a copy of the exact size; whatever comes out is looked at in full. */
static nf_status read_exact(nf_context *ctx, const sample *s, const void *data, size_t size,
                            const nf_read_params *params)
{
    nf_dataset     *dataset = NULL;
    uint8_t        *copy = exact_copy(data, size);
    const nf_status status = nf_read_memory(ctx, s->name, copy, size, params, &dataset);
    if (status == NF_OK) {
        const nf_matrix *matrix = nf_dataset_matrix(dataset);
        double           sum = 0;
        for (uint64_t i = 0; i < matrix->rows * matrix->dims; i++) {
            sum += value_at(matrix, i / matrix->dims, (uint32_t)(i % matrix->dims));
        }
        assert_true(sum == sum || isnan(sum));
        assert_true(matrix->dims > 0);
    } else {
        const nf_error *error = nf_context_error(ctx);
        assert_null(dataset);
        assert_int_equal(error->status, status);
        assert_int_equal(strncmp(error->text, s->name, strlen(s->name)), 0);
        assert_true(strlen(error->text) > strlen(s->name) + 2);
        assert_null(strchr(error->text, '\n'));
    }
    nf_dataset_release(dataset);
    free(copy);
    return status;
}

static void test_cut_everywhere(void **state)
{
    (void)state;
    static sample samples[SAMPLES];
    const size_t  count = make_samples(samples);
    nf_context   *ctx = make_context(2);
    for (size_t i = 0; i < count; i++) {
        const sample        *s = &samples[i];
        const nf_read_params params = params_for(s);
        for (size_t size = 0; size < s->file.size; size++) {
            const nf_status status = read_exact(ctx, s, s->file.data, size, &params);
            if (s->text) continue; /* many cut texts are right */
            const bool legal = s->legal && s->legal(size);
            assert_int_equal(status == NF_OK, legal);
        }
        assert_int_equal(read_exact(ctx, s, s->file.data, s->file.size, &params), NF_OK);
    }
    nf_context_destroy(ctx);
}

static void test_one_byte_more(void **state)
{
    (void)state;
    static sample samples[SAMPLES];
    const size_t  count = make_samples(samples);
    nf_context   *ctx = make_context(1);
    for (size_t i = 0; i < count; i++) {
        sample              *s = &samples[i];
        const nf_read_params params = params_for(s);
        add(&s->file, "", 1);
        assert_int_not_equal(read_exact(ctx, s, s->file.data, s->file.size, &params), NF_OK);
    }
    nf_context_destroy(ctx);
}

static void test_changed_bytes(void **state)
{
    (void)state;
    static const uint8_t values[] = {0,    1,   0x7f, 0x80, 0xff, '"', '\'', ',', '\n',
                                     '\r', ' ', '\t', '#',  '-',  '9', 'e',  '?', ')'};
    static sample        samples[SAMPLES];
    const size_t         count = make_samples(samples);
    nf_context          *ctx = make_context(1);
    for (size_t i = 0; i < count; i++) {
        sample        *s = &samples[i];
        nf_read_params params = params_for(s);
        for (size_t at = 0; at < s->file.size; at++) {
            const uint8_t before = s->file.data[at];
            for (size_t v = 0; v < sizeof values; v++) {
                s->file.data[at] = values[v];
                params.skip_invalid = v % 2;
                (void)read_exact(ctx, s, s->file.data, s->file.size, &params);
            }
            s->file.data[at] = before;
        }
    }
    nf_context_destroy(ctx);
}

/* The same from disk, for one file: sizes around a page, where a read behind the end is a fault. */
static void test_page_sized_text(void **state)
{
    (void)state;
    static char text[8192];
    for (size_t size = 4090; size <= 4100; size++) {
        char        path[4096];
        nf_context *ctx = make_context(1);
        nf_dataset *dataset;
        for (size_t i = 0; i < size; i++) text[i] = i % 4 == 3 ? '\n' : '1';
        write_file(path, "page.csv", text, size);
        assert_int_equal(nf_read_matrix(ctx, path, NULL, &dataset), NF_OK);
        assert_int_equal(nf_dataset_matrix(dataset)->rows, (size + 3) / 4);
        assert_true(value_at(nf_dataset_matrix(dataset), (size - 1) / 4, 0) == (size % 4 == 1   ? 1
                                                                                : size % 4 == 2 ? 11
                                                                                                : 111));
        nf_dataset_release(dataset);
        nf_context_destroy(ctx);
        remove_file(path);
    }
}

/* An allocator that fails once, at a given allocation. */
typedef struct failing {
    atomic_llong left; /* allocations until the failure; negative: it is over */
    atomic_llong live;
} failing;

static void *failing_alloc(void *user, size_t size, size_t align)
{
    failing *f = user;
    void    *block = NULL;
    if (atomic_fetch_sub(&f->left, 1) == 0) return NULL;
    if (posix_memalign(&block, align, size) != 0) return NULL;
    atomic_fetch_add(&f->live, 1);
    return block;
}

static void failing_release(void *user, void *ptr, size_t size, size_t align)
{
    failing *f = user;
    (void)size;
    (void)align;
    atomic_fetch_sub(&f->live, 1);
    free(ptr);
}

/* Reads with the n-th allocation failing, n = 0, 1, ... until it succeeds. Returns how many failed. */
static int fail_every_allocation(const char *name, const void *data, size_t size, const nf_read_params *params)
{
    failing           f;
    nf_context_params context;
    nf_context       *ctx;
    atomic_init(&f.left, -1);
    atomic_init(&f.live, 0);
    nf_context_params_init(&context);
    context.threads = 2;
    context.allocator = (nf_allocator){failing_alloc, failing_release, &f};
    assert_int_equal(nf_context_create(&context, &ctx, NULL), NF_OK);
    const long long before = atomic_load(&f.live);
    for (int n = 0;; n++) {
        nf_dataset *dataset = NULL;
        atomic_store(&f.left, n);
        const nf_status status = nf_read_memory(ctx, name, data, size, params, &dataset);
        if (status == NF_OK) {
            nf_dataset_release(dataset);
            assert_int_equal(atomic_load(&f.live), before);
            nf_context_destroy(ctx);
            assert_int_equal(atomic_load(&f.live), 0);
            return n;
        }
        assert_int_equal(status, NF_ERR_MEMORY);
        assert_null(dataset);
        assert_int_equal(atomic_load(&f.live), before);
        assert_true(n < 100);
    }
}

static void test_no_memory(void **state)
{
    (void)state;
    static sample samples[SAMPLES];
    const size_t  count = make_samples(samples);
    for (size_t i = 0; i < count; i++) {
        nf_read_params params = params_for(&samples[i]);
        assert_true(fail_every_allocation(samples[i].name, samples[i].file.data, samples[i].file.size, &params) >= 1);
        params.skip_invalid = 1;
        assert_true(fail_every_allocation(samples[i].name, samples[i].file.data, samples[i].file.size, &params) >= 1);
    }
}

/* Everything at once: chosen columns, several chunks, a type that has to be widened, rows that are left out. */
static void test_no_memory_large_text(void **state)
{
    (void)state;
    enum { rows = 40000 };
    char          *text = malloc(rows * 16);
    size_t         size = 0;
    nf_read_params params = default_params();
    assert_non_null(text);
    for (int i = 0; i < rows; i++) size += (size_t)sprintf(text + size, i == 30000 ? "7,?\n" : "%d,0\n", i);
    params.columns = "2,1";
    params.skip_invalid = 1;
    assert_true(fail_every_allocation("a.csv", text, size, &params) >= 9);
    free(text);
}

/* A memory limit that the values do not fit in. */
static void test_limit(void **state)
{
    (void)state;
    static char       text[100000];
    nf_context_params context;
    nf_context       *ctx;
    nf_dataset       *dataset;
    for (size_t i = 0; i < sizeof text; i++) text[i] = i % 2 ? '\n' : '1';
    nf_context_params_init(&context);
    context.memory = 40000;
    assert_int_equal(nf_context_create(&context, &ctx, NULL), NF_OK);
    assert_int_equal(nf_read_memory(ctx, "a.csv", text, sizeof text, NULL, &dataset), NF_ERR_LIMIT);
    assert_null(dataset);
    assert_non_null(strstr(nf_context_error(ctx)->text, "40000"));
    nf_context_destroy(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cut_everywhere), cmocka_unit_test(test_one_byte_more),
        cmocka_unit_test(test_changed_bytes),  cmocka_unit_test(test_page_sized_text),
        cmocka_unit_test(test_no_memory),      cmocka_unit_test(test_no_memory_large_text),
        cmocka_unit_test(test_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
