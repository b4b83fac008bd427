/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of src/ivf share: data, builds, files as bytes, brute force in binary64. */
#ifndef NF_TESTS_IVF_HELPER_H
#define NF_TESTS_IVF_HELPER_H

#include <unistd.h>

#include "exact_helper.h"
#include "nearfield/ivf.h"

/* Sum of four uniform numbers, less 2: a bell of variance 1/3, from exact arithmetic alone. */
static inline double ivf_bell(uint64_t *state)
{
    double sum = -2.0;
    for (int i = 0; i < 4; i++) sum += random_unit(state);
    return sum;
}

/* Clusters of very different sizes (row i belongs to cluster floor(u^2 * clusters)), spread 1/4 of the centres'. */
static inline void ivf_fill_mixture(float *values, uint64_t rows, uint32_t dims, uint32_t clusters, uint64_t seed)
{
    float *centres = malloc((size_t)clusters * dims * sizeof *centres);
    for (size_t i = 0; i < (size_t)clusters * dims; i++) centres[i] = (float)ivf_bell(&seed);
    for (uint64_t row = 0; row < rows; row++) {
        const double u = random_unit(&seed);
        const float *centre = centres + (size_t)(u * u * clusters) * dims;
        for (uint32_t k = 0; k < dims; k++) values[row * dims + k] = centre[k] + (float)(0.25 * ivf_bell(&seed));
    }
    free(centres);
}

static inline nf_matrix ivf_mixture(uint64_t rows, uint32_t dims, uint32_t clusters, uint64_t seed)
{
    nf_matrix matrix = exact_matrix(NF_DTYPE_F32, rows, dims);
    ivf_fill_mixture((float *)(uintptr_t)matrix.data, rows, dims, clusters, seed);
    return matrix;
}

/* A file's bytes; the caller frees. */
static inline unsigned char *ivf_read_file(const char *path, size_t *bytes)
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    fseek(file, 0, SEEK_END);
    *bytes = (size_t)ftell(file);
    rewind(file);
    unsigned char *content = malloc(*bytes + 1);
    assert_int_equal(fread(content, 1, *bytes, file), *bytes);
    fclose(file);
    return content;
}

static inline void ivf_write_file(const char *path, const void *content, size_t bytes)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(content, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
}

/* A path for a file of this process. */
static inline void ivf_path(char *path, size_t room, const char *name)
{
    const char *folder = getenv("TMPDIR");
    snprintf(path, room, "%s/nearfield_%ld_%s", folder != NULL ? folder : "/tmp", (long)getpid(), name);
}

static inline nf_ivf_index *ivf_build(nf_context *ctx, const nf_matrix *data, const nf_ivf_params *params)
{
    nf_ivf_index   *index = NULL;
    const nf_status status = nf_ivf_build(ctx, data, params, &index, NULL);
    if (status < 0) print_error("build: %s\n", nf_context_error(ctx)->text);
    assert_int_equal(status, NF_OK);
    assert_non_null(index);
    return index;
}

/* The distance of the definition in neighbours.h, plainly. */
static inline double ivf_distance(uint32_t metric, const double *x, const double *y, uint32_t dims)
{
    long double square = 0, dot = 0, xx = 0, yy = 0;
    for (uint32_t i = 0; i < dims; i++) {
        square += ((long double)x[i] - y[i]) * ((long double)x[i] - y[i]);
        dot += (long double)x[i] * y[i];
        xx += (long double)x[i] * x[i];
        yy += (long double)y[i] * y[i];
    }
    if (metric == NF_METRIC_L2) return (double)sqrtl(square);
    if (metric == NF_METRIC_IP) return (double)-dot;
    return xx == 0 || yy == 0 ? 1.0 : (double)(1 - dot / sqrtl(xx * yy));
}

#endif
