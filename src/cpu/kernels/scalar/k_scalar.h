/* SPDX-License-Identifier: Apache-2.0 */
/* The scalar kernels by name: tests compare others with them, and overrides fall back to them. */
#ifndef NF_K_SCALAR_H
#define NF_K_SCALAR_H

#include "cpu/kernels/kernels.h"

void nf_k_squares_f32_scalar(const float *panel, uint32_t steps, const uint32_t *stops, uint32_t stop_count,
                             float *squares);
void nf_k_pack_f32_scalar(const nf_rows *rows, float *panel, const uint32_t *stops, uint32_t stop_count, float *squares);
void nf_k_pack_f64_scalar(const nf_rows *rows, double *panel);
void nf_k_pack_u8_scalar(const nf_rows *rows, void *panel, const uint32_t *stops, uint32_t stop_count, int32_t *sums);

void nf_k_refine_f32_product_scalar(const nf_tile *tile);
void nf_k_refine_f32_difference_scalar(const nf_tile *tile);
void nf_k_refine_f64_difference_scalar(const nf_tile *tile);
void nf_k_refine_u8_scalar(const nf_tile *tile);

uint32_t nf_k_mask_positions_scalar(uint64_t mask, uint32_t base, uint32_t *out);
uint64_t nf_k_ids_above_scalar(const uint32_t *ids, uint32_t id);
void nf_k_sort_ids_scalar(uint32_t *ids, uint64_t count, uint32_t *spare);
void nf_k_roots_scalar(double *sums, uint32_t count, double most);
uint64_t nf_k_rows_in_box_scalar(const float *columns, const float *low, const float *high, uint32_t dims);
void nf_k_ranks_scalar(const double *values, uint32_t *ranks);
uint32_t nf_k_pick_scalar(const double *values, const uint32_t *at, uint32_t count, double most, double *picked,
                          uint32_t *picked_at);
uint64_t nf_k_rows_near_box_scalar(const float *columns, const float *low, const float *high, uint32_t dims,
                                     const float *most);
float nf_k_gap_square_scalar(const float *a, const float *b, uint32_t dims);
float nf_k_distance_square_scalar(const float *a, const float *b, uint32_t dims);
void nf_k_sums_scalar(nf_store store, const void *x, const void *base, size_t row_bytes, uint32_t dims,
                      const uint32_t *at, uint32_t count, double *sums);

#endif
