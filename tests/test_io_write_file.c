/* SPDX-License-Identifier: Apache-2.0 */
/* Output files: complete or not there, the old one kept, nothing left behind. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>

#include "io/io_file.h"
#include "io_write_helper.h"

typedef struct fixture {
    nf_context *ctx;
    char        folder[64];
    char        path[128];
} fixture;

static int set_up(void **state)
{
    fixture *all = calloc(1, sizeof *all);
    all->ctx = make_context(2);
    make_folder(all->folder);
    path_in(all->path, all->folder, "out.bin");
    *state = all;
    return 0;
}

static int tear_down(void **state)
{
    fixture *all = *state;
    nf_context_destroy(all->ctx);
    remove_folder(all->folder);
    free(all);
    return 0;
}

/* A context keeps its first failure until the next public call; these tests call internal functions. */
static void new_context(fixture *all)
{
    nf_context_destroy(all->ctx);
    all->ctx = make_context(2);
}

static void test_append_and_commit(void **state)
{
    fixture  *all = *state;
    nf_output out;
    char     *large = malloc(1 << 20);

    memset(large, 'x', 1 << 20);
    assert_int_equal(nf_output_open(all->ctx, all->path, &out), NF_OK);
    assert_true(nf_output_is_regular(&out));
    assert_int_equal(nf_output_append(&out, "abc", 3), NF_OK);
    assert_int_equal(nf_output_append(&out, large, 1 << 20), NF_OK);
    assert_int_equal(nf_output_append(&out, "def", 3), NF_OK);
    assert_false(file_exists(all->path));
    assert_int_equal(nf_output_commit(&out, true), NF_OK);
    nf_output_discard(&out);

    contents file = read_file(all->path);
    assert_int_equal(file.size, (1 << 20) + 6);
    assert_memory_equal(file.data, "abcxxx", 6);
    assert_memory_equal(file.data + file.size - 6, "xxxdef", 6);
    free(file.data);
    free(large);
    assert_int_equal(count_files(all->folder), 1);
}

static void test_positions(void **state)
{
    fixture  *all = *state;
    nf_output out;

    assert_int_equal(nf_output_open(all->ctx, all->path, &out), NF_OK);
    assert_int_equal(nf_output_positioned(&out), NF_OK);
    assert_int_equal(nf_output_reserve(&out, 6), NF_OK);
    assert_int_equal(nf_output_write_at(&out, 3, "def", 3), NF_OK);
    assert_int_equal(nf_output_write_at(&out, 0, "abc", 3), NF_OK);
    assert_int_equal(nf_output_commit(&out, false), NF_OK);
    assert_file_is(all->path, "abcdef", 6);
}

static void test_reserve_takes_the_space(void **state)
{
    fixture    *all = *state;
    nf_output   out;
    struct stat status;

    assert_int_equal(nf_output_open(all->ctx, all->path, &out), NF_OK);
    assert_int_equal(nf_output_reserve(&out, 8 << 20), NF_OK);
    assert_int_equal(fstat(out.fd, &status), 0);
    assert_true(status.st_size == 8 << 20 || status.st_size == 0); /* 0 where the file system cannot */
    nf_output_discard(&out);
    assert_int_equal(count_files(all->folder), 0);
}

static void test_discard_keeps_the_old_file(void **state)
{
    fixture  *all = *state;
    nf_output out;

    put_file(all->path, "old");
    assert_int_equal(nf_output_open(all->ctx, all->path, &out), NF_OK);
    assert_int_equal(nf_output_append(&out, "new", 3), NF_OK);
    assert_int_equal(count_files(all->folder), 2);
    nf_output_discard(&out);
    assert_file_is(all->path, "old", 3);
    assert_int_equal(count_files(all->folder), 1);
}

static void test_mode(void **state)
{
    fixture     *all = *state;
    nf_output    out;
    struct stat  status;
    const mode_t before = umask(027);

    assert_int_equal(nf_output_open(all->ctx, all->path, &out), NF_OK);
    assert_int_equal(nf_output_commit(&out, false), NF_OK);
    assert_int_equal(stat(all->path, &status), 0);
    assert_int_equal(status.st_mode & 0777, 0640);
    umask(before);

    assert_int_equal(chmod(all->path, 0604), 0);
    assert_int_equal(nf_output_open(all->ctx, all->path, &out), NF_OK);
    assert_int_equal(nf_output_commit(&out, false), NF_OK);
    assert_int_equal(stat(all->path, &status), 0);
    assert_int_equal(status.st_mode & 0777, 0604);
}

static void test_link_is_followed(void **state)
{
    fixture    *all = *state;
    nf_output   out;
    char        link_path[128];
    struct stat status;

    put_file(all->path, "old");
    path_in(link_path, all->folder, "link");
    assert_int_equal(symlink("out.bin", link_path), 0);
    assert_int_equal(nf_output_open(all->ctx, link_path, &out), NF_OK);
    assert_int_equal(nf_output_append(&out, "new", 3), NF_OK);
    assert_int_equal(nf_output_commit(&out, true), NF_OK);
    assert_int_equal(lstat(link_path, &status), 0);
    assert_true(S_ISLNK(status.st_mode));
    assert_file_is(all->path, "new", 3);
}

static void test_long_name(void **state)
{
    fixture  *all = *state;
    nf_output out;
    char      path[400];
    const int used = snprintf(path, sizeof path, "%s/", all->folder);

    memset(path + used, 'n', 255);
    path[used + 255] = '\0';
    assert_int_equal(nf_output_open(all->ctx, path, &out), NF_OK);
    assert_int_equal(nf_output_commit(&out, false), NF_OK);
    assert_true(file_exists(path));
}

static void assert_refused(fixture *all, const char *path, const char *part)
{
    nf_output out;
    new_context(all);
    assert_int_equal(nf_output_open(all->ctx, path, &out), NF_ERR_IO);
    assert_error_has(all->ctx, path);
    assert_error_has(all->ctx, part);
    assert_int_equal(count_files(all->folder), 0);
}

static void test_refusals(void **state)
{
    fixture *all = *state;
    char     path[128];

    assert_refused(all, all->folder, "is a folder");
    path_in(path, all->folder, "none/out.bin");
    assert_refused(all, path, "No such file or directory");
    path_in(path, all->folder, "none/");
    assert_refused(all, path, "is a folder");
    if (geteuid() == 0) return; /* root may write anywhere */
    assert_int_equal(chmod(all->folder, 0500), 0);
    assert_refused(all, all->path, "Permission denied");
    assert_int_equal(chmod(all->folder, 0700), 0);
}

static void test_full_device(void **state)
{
    fixture  *all = *state;
    nf_output out;

    if (!file_exists("/dev/full")) skip();
    assert_int_equal(nf_output_open(all->ctx, "/dev/full", &out), NF_OK);
    assert_false(nf_output_is_regular(&out));
    assert_int_equal(nf_output_append(&out, "abc", 3), NF_OK);
    assert_int_equal(nf_output_commit(&out, true), NF_ERR_IO);
    assert_string_equal(nf_context_error(all->ctx)->text, "/dev/full: cannot write: No space left on device");
    assert_int_equal(nf_context_error(all->ctx)->native, ENOSPC);
}

static void test_device_with_positions(void **state)
{
    fixture  *all = *state;
    nf_output out;

    if (!file_exists("/dev/full")) skip();
    assert_int_equal(nf_output_open(all->ctx, "/dev/null", &out), NF_OK);
    assert_int_equal(nf_output_positioned(&out), NF_OK);
    assert_int_equal(nf_output_write_at(&out, 5, "abc", 3), NF_OK);
    assert_int_equal(nf_output_commit(&out, true), NF_OK);

    assert_int_equal(nf_output_open(all->ctx, "/dev/full", &out), NF_OK);
    assert_int_equal(nf_output_positioned(&out), NF_OK);
    assert_int_equal(nf_output_write_at(&out, 5, "abc", 3), NF_OK);
    assert_int_equal(nf_output_commit(&out, true), NF_ERR_IO);
    assert_error_has(all->ctx, "No space left on device");
}

/* A file that grows beyond the process's limit: the write fails half way. */
static void test_file_too_large(void **state)
{
    fixture      *all = *state;
    nf_output     out;
    struct rlimit before, small;
    char         *large = calloc(1, 1 << 20);

    put_file(all->path, "old");
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = before;
    small.rlim_cur = 1000;
    assert_int_equal(nf_output_open(all->ctx, all->path, &out), NF_OK);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    const nf_status appended = nf_output_append(&out, large, 1 << 20);
    const nf_status reserved = nf_output_reserve(&out, 2 << 20);
    nf_output_discard(&out);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    free(large);
    assert_int_equal(appended, NF_ERR_IO);
    assert_int_equal(reserved, NF_ERR_IO);
    assert_error_has(all->ctx, "out.bin: cannot write: File too large");
    assert_file_is(all->path, "old", 3);
    assert_int_equal(count_files(all->folder), 1);
}

/* Standard output as a pipe: both ways of writing, and a reader that is gone. */
static void test_standard_output(void **state)
{
    fixture  *all = *state;
    const int before = dup(STDOUT_FILENO);
    int       ends[2];
    char      text[16] = "";
    nf_output out;
    nf_status status[4];

    fflush(stdout);
    signal(SIGPIPE, SIG_IGN);
    assert_int_equal(pipe(ends), 0);
    dup2(ends[1], STDOUT_FILENO);
    close(ends[1]);
    status[0] = nf_output_open(all->ctx, "-", &out);
    (void)nf_output_append(&out, "abc", 3);
    status[1] = nf_output_commit(&out, true);
    (void)nf_output_open(all->ctx, "-", &out);
    (void)nf_output_positioned(&out);
    (void)nf_output_write_at(&out, 3, "456", 3);
    (void)nf_output_write_at(&out, 0, "123", 3);
    status[2] = nf_output_commit(&out, true);
    const ssize_t got = read(ends[0], text, sizeof text);
    close(ends[0]);
    (void)nf_output_open(all->ctx, "-", &out);
    (void)nf_output_append(&out, "abc", 3);
    status[3] = nf_output_commit(&out, true);
    dup2(before, STDOUT_FILENO);
    close(before);

    assert_int_equal(got, 9);
    assert_string_equal(text, "abc123456");
    for (int i = 0; i < 3; i++) assert_int_equal(status[i], NF_OK);
    assert_int_equal(status[3], NF_ERR_IO);
    assert_string_equal(nf_context_error(all->ctx)->text, "standard output: cannot write: Broken pipe");
}

static void test_cancel_before_rename(void **state)
{
    fixture  *all = *state;
    nf_output out;

    put_file(all->path, "old");
    assert_int_equal(nf_output_open(all->ctx, all->path, &out), NF_OK);
    nf_context_cancel(all->ctx);
    assert_int_equal(nf_output_commit(&out, true), NF_ERR_CANCELLED);
    assert_file_is(all->path, "old", 3);
    assert_int_equal(count_files(all->folder), 1);
}

int main(void)
{
#define FILE_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        FILE_TEST(test_append_and_commit), FILE_TEST(test_positions),
        FILE_TEST(test_reserve_takes_the_space), FILE_TEST(test_discard_keeps_the_old_file),
        FILE_TEST(test_mode),              FILE_TEST(test_link_is_followed),
        FILE_TEST(test_long_name),         FILE_TEST(test_refusals),
        FILE_TEST(test_full_device),       FILE_TEST(test_device_with_positions),
        FILE_TEST(test_file_too_large),    FILE_TEST(test_standard_output),
        FILE_TEST(test_cancel_before_rename),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
