/* SPDX-License-Identifier: Apache-2.0 */
/* Marks on public functions: visibility, and "the status must be looked at". */
#ifndef NEARFIELD_EXPORT_H
#define NEARFIELD_EXPORT_H

#if defined(__GNUC__) || defined(__clang__)
#define NF_API __attribute__((visibility("default")))
#define NF_NODISCARD __attribute__((warn_unused_result))
#else
#define NF_API
#define NF_NODISCARD
#endif

#endif
