/* SPDX-License-Identifier: Apache-2.0 */
/* Full verification of a sealed file whose header, table and footer have been checked. */
#ifndef NF_STORE_VERIFY_H
#define NF_STORE_VERIFY_H

#include <stdint.h>

#include "store_layout.h"

/* Looks at every byte of every section and at all padding. file: layout->bytes bytes. NF_ERR_DAMAGED names the section
 * and the bytes of the file; of several damaged places the first. */
nf_status nf_sealed_verify(nf_context *ctx, const char *path, const nf_sealed_layout *layout, const uint8_t *file);

#endif
