/* SPDX-License-Identifier: Apache-2.0 */
/* Element types: sizes and names, from the one list in matrix.h. */
#include <string.h>

#include "nearfield/matrix.h"

size_t nf_dtype_bytes(nf_dtype dtype)
{
    switch (dtype) {
#define DTYPE_BYTES(name, number, text, bytes) \
    case name: return bytes;
        NF_DTYPE_MAP(DTYPE_BYTES)
#undef DTYPE_BYTES
    case NF_DTYPE_NONE: break;
    }
    return 0;
}

const char *nf_dtype_name(nf_dtype dtype)
{
    switch (dtype) {
#define DTYPE_NAME(name, number, text, bytes) \
    case name: return text;
        NF_DTYPE_MAP(DTYPE_NAME)
#undef DTYPE_NAME
    case NF_DTYPE_NONE: break;
    }
    return "none";
}

nf_dtype nf_dtype_from_name(const char *name)
{
    static const struct {
        const char *name;
        nf_dtype    dtype;
    } names[] = {
#define DTYPE_ENTRY(name, number, text, bytes) {text, name},
        NF_DTYPE_MAP(DTYPE_ENTRY)
#undef DTYPE_ENTRY
        {"uint8", NF_DTYPE_U8},   {"int8", NF_DTYPE_I8},     {"uint16", NF_DTYPE_U16},  {"int16", NF_DTYPE_I16},
        {"uint32", NF_DTYPE_U32}, {"int32", NF_DTYPE_I32},   {"uint64", NF_DTYPE_U64},  {"int64", NF_DTYPE_I64},
        {"half", NF_DTYPE_F16},   {"float16", NF_DTYPE_F16}, {"float32", NF_DTYPE_F32}, {"float64", NF_DTYPE_F64},
        {"float", NF_DTYPE_F32},  {"double", NF_DTYPE_F64},
    };
    for (size_t i = 0; name != NULL && i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(names[i].name, name) == 0) return names[i].dtype;
    }
    return NF_DTYPE_NONE;
}
