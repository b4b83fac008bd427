/* SPDX-License-Identifier: Apache-2.0 */
/* The version of the library: of this header (macros) and of the library in use (function). */
#ifndef NEARFIELD_VERSION_H
#define NEARFIELD_VERSION_H

#include "export.h"

#define NF_VERSION_MAJOR 0
#define NF_VERSION_MINOR 1
#define NF_VERSION_PATCH 0
#define NF_VERSION "0.1.0"

#ifdef __cplusplus
extern "C" {
#endif

/* Returns the version of the library that is loaded, as "major.minor.patch".
 * A static string. Any thread. */
NF_API const char *nf_version(void);

#ifdef __cplusplus
}
#endif

#endif
