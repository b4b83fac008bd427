/* SPDX-License-Identifier: Apache-2.0 */
/* Texts of faults. */
#include "rt_fault.h"

#include <stdarg.h>
#include <stdio.h>

/* Messages of libraries may have several lines. */
static void make_one_line(char *text)
{
    size_t end = 0;
    for (size_t i = 0; text[i] != '\0'; i++) {
        if ((unsigned char)text[i] < ' ') text[i] = ' ';
        if (text[i] != ' ') end = i + 1;
    }
    text[end] = '\0';
}

nf_status nf_rt_fault_set(nf_rt_fault *fault, nf_status status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(fault->text, sizeof fault->text, format, arguments);
    va_end(arguments);
    make_one_line(fault->text);
    fault->status = status;
    return status;
}

nf_status nf_rt_fault_cuda(nf_rt_fault *fault, cudaError_t error, const char *what)
{
    if (error == cudaSuccess) return NF_OK;
    const nf_status status = error == cudaErrorMemoryAllocation ? NF_ERR_DEVICE_MEMORY : NF_ERR_DEVICE;
    return nf_rt_fault_set(fault, status, "ray tracing: %s: %s (%s)", what, cudaGetErrorString(error),
                           cudaGetErrorName(error));
}
