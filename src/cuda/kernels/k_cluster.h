/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels of k-means: grouping rows by label, means, and moving rows. Results do not depend on the order of threads. */
#ifndef NF_K_CLUSTER_H
#define NF_K_CLUSTER_H

#include <cuda_runtime_api.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* starts[c] = how many of the sorted labels are below c, c <= clusters. */
cudaError_t nf_k_label_starts(const uint32_t *sorted_labels, uint32_t count, uint32_t clusters, uint32_t *starts,
                              cudaStream_t stream);

/* centroids[c] = mean of rows members[starts[c]] .. members[starts[c + 1] - 1], added up in binary64 in a fixed number of
 * parts, each in ascending order of members: the order depends on how many rows there are alone. Clusters without rows keep
 * theirs. Rows are stride values apart, centroids too. */
cudaError_t nf_k_cluster_means(const float *rows, uint32_t dims, uint32_t stride, const uint32_t *members,
                               const uint32_t *starts, uint32_t clusters, float *centroids, cudaStream_t stream);

/* to[i] = from[which[i]], rows of stride values. */
cudaError_t nf_k_take_rows(const float *from, const uint32_t *which, uint32_t count, uint32_t stride, float *to,
                           cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
