/* SPDX-License-Identifier: Apache-2.0 */
/* Packing on every instruction set of this machine: values of panels by their formula, sums of squares by long double. */
#include "kernels_helper.h"

static uint32_t padded(uint32_t count)
{
    return (count + NF_LANES - 1) / NF_LANES * NF_LANES;
}

static void check_pack_f32(const nf_kernels *kernels, const sample *at)
{
    const uint32_t dims = at->rows.dims, count = at->rows.count;
    uint32_t       stops[NF_MAX_STOPS], stop_count = make_stops(dims, 1, stops);
    guarded        panel = guard_open((size_t)NF_TILE * dims * sizeof(float), 1);
    guarded        squares = guard_open((size_t)stop_count * NF_TILE * sizeof(float), 1);
    const float   *values = panel.data, *sums = squares.data;

    kernels->pack_f32(&at->rows, panel.data, stops, stop_count, squares.data);
    for (uint32_t row = 0; row < padded(count); row++) {
        for (uint32_t c = 0; c < dims; c++) {
            const double expected = row < count ? at->values[row * dims + c] : 0.0;
            assert_true((double)values[nf_panel_at(dims, row, at->place[c])] == expected);
        }
        for (uint32_t s = 0; s < stop_count; s++) {
            long double exact = 0.0L;
            for (uint32_t c = 0; row < count && c < dims; c++) {
                const long double v = at->values[row * dims + c];
                if (at->place[c] < stops[s]) exact += v * v;
            }
            const long double got = (long double)sums[s * NF_TILE + row];
            assert_true(fabsl(got - exact) <= exact * (stops[s] + 1) * 0x1p-24L);
        }
    }
    memset(panel.data, 0xee, (size_t)NF_TILE * dims * sizeof(float)); /* without sums */
    kernels->pack_f32(&at->rows, panel.data, NULL, 0, NULL);
    if (count > 0) assert_true((double)values[nf_panel_at(dims, count - 1, at->place[dims - 1])] == at->values[count * dims - 1]);
    guard_close(&panel);
    guard_close(&squares);
}

static void test_pack_f32(void **state)
{
    (void)state;
    static const struct {
        nf_store store;
        double   bias;
    } kinds[] = {{NF_STORE_U8, 0}, {NF_STORE_U8, -128}, {NF_STORE_I16, 0}, {NF_STORE_I16, 32768}, {NF_STORE_F16, 0},
                 {NF_STORE_F32, 0}};
    const nf_kernels *kernels;
    for (uint32_t isa = 0; (kernels = kernels_at(isa)) != NULL; isa++) {
        for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
            for (size_t d = 0; d < DIMS_COUNT; d++) {
                for (uint32_t i = 0; i < 6; i++) {
                    const uint32_t count = i == 0 ? 64 : 1 + (uint32_t)(d * 6 + i * 11) % 64;
                    sample at = make_sample(kinds[k].store, count, all_dims[d], kinds[k].bias, 1.0, (int)(i % 2), (int)(i % 3 != 0), d);
                    check_pack_f32(kernels, &at);
                    free_sample(&at);
                }
            }
        }
        for (uint32_t count = 1; count <= NF_TILE; count++) {
            sample at = make_sample(NF_STORE_F32, count, 9, 0.0, 1.0, 1, 1, count);
            check_pack_f32(kernels, &at);
            free_sample(&at);
        }
    }
}

static void test_pack_f64(void **state)
{
    (void)state;
    static const nf_store stores[] = {NF_STORE_U8, NF_STORE_I16, NF_STORE_F16, NF_STORE_F32, NF_STORE_F64};
    static const double   scales[] = {1.0, 0x1p-500, 0x1p400};
    const nf_kernels     *kernels;
    for (uint32_t isa = 0; (kernels = kernels_at(isa)) != NULL; isa++) {
        for (size_t d = 0; d < DIMS_COUNT; d++) {
            for (uint32_t i = 0; i < 15; i++) {
                const uint32_t dims = all_dims[d], count = i == 0 ? 64 : 1 + (uint32_t)(d * 5 + i * 13) % 64;
                const double   scale = scales[i % 3], bias = stores[i % 5] == NF_STORE_I16 ? 32768.0 : 0.0;
                sample         at = make_sample(stores[i % 5], count, dims, bias, scale, (int)(i % 2), (int)(i % 4 != 0), i);
                guarded        panel = guard_open((size_t)NF_TILE * dims * sizeof(double), 1);
                const double  *values = panel.data;
                kernels->pack_f64(&at.rows, panel.data);
                for (uint32_t row = 0; row < padded(count); row++) {
                    for (uint32_t c = 0; c < dims; c++) {
                        const double expected = row < count ? at.values[row * dims + c] * scale : 0.0;
                        assert_true(values[nf_panel_at(dims, row, at.place[c])] == expected);
                    }
                }
                guard_close(&panel);
                free_sample(&at);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pack_f32),
        cmocka_unit_test(test_pack_f64),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
