/* SPDX-License-Identifier: Apache-2.0 */
/* The compiled programs of rt_programs.cu (PTX, ends with a zero byte that the size leaves out); made by the build. */
#ifndef NF_RT_PROGRAMS_H
#define NF_RT_PROGRAMS_H

#include <stddef.h>

extern const unsigned char nf_rt_programs[];
extern const size_t nf_rt_programs_size;

#endif
