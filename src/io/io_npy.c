/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading .npy: one array in NumPy's format.
 *
 *     \x93NUMPY  major minor  header length (u16 in version 1, u32 in 2 and 3)  header  values
 *
 * The header is a Python dict literal with exactly the keys descr, fortran_order and shape, in any order, padded with
 * blanks. It is read by a small strict parser: what it does not expect is an error, nothing is guessed. Types that hold
 * no plain numbers (objects, which would be pickled code, complex numbers, text, records) are refused by name.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/core_context.h"
#include "io_read.h"

#define MAGIC_BYTES 6
#define DESCR_MAX 64

/* A position in the header's text, and what was read so far. */
typedef struct npy_header {
    const char *at;
    const char *end;
    char        descr[DESCR_MAX];
    bool        record; /* descr is a list: named fields */
    bool        fortran;
    uint32_t    axes; /* how many sizes the shape has */
    uint64_t    shape[2];
    uint32_t    keys; /* bit set of the keys seen */
} npy_header;

enum { KEY_DESCR = 1, KEY_ORDER = 2, KEY_SHAPE = 4, KEY_ALL = 7 };

static void skip_blanks(npy_header *header)
{
    while (header->at < header->end && (*header->at == ' ' || *header->at == '\n' || *header->at == '\t')) header->at++;
}

/* Takes a character, with blanks before it, when it comes next. */
static bool take(npy_header *header, char wanted)
{
    skip_blanks(header);
    if (header->at >= header->end || *header->at != wanted) return false;
    header->at++;
    return true;
}

static bool take_word(npy_header *header, const char *word)
{
    const size_t length = strlen(word);
    skip_blanks(header);
    if ((size_t)(header->end - header->at) < length || memcmp(header->at, word, length) != 0) return false;
    header->at += length;
    return true;
}

/* A quoted text without escapes, which no header of a plain array needs. */
static bool take_text(npy_header *header, char *text, size_t capacity)
{
    skip_blanks(header);
    if (header->at >= header->end || (*header->at != '\'' && *header->at != '"')) return false;
    const char quote = *header->at++;
    size_t     length = 0;
    while (header->at < header->end && *header->at != quote) {
        if (length + 1 >= capacity || *header->at < ' ' || *header->at > '~' || *header->at == '\\') return false;
        text[length++] = *header->at++;
    }
    text[length] = '\0';
    return take(header, quote);
}

/* A size. Python 2 wrote long integers with an L behind. */
static bool take_size(npy_header *header, uint64_t *size)
{
    skip_blanks(header);
    const char *begin = header->at;
    uint64_t    value = 0;
    while (header->at < header->end && *header->at >= '0' && *header->at <= '9') {
        const uint64_t digit = (uint64_t)(*header->at++ - '0');
        if (!nf_multiply(value, 10, &value) || value > UINT64_MAX - digit) return false;
        value += digit;
    }
    *size = value;
    if (header->at == begin) return false;
    if (header->at < header->end && *header->at == 'L') header->at++;
    return true;
}

/* (), (n,), (n, d), ... */
static bool take_shape(npy_header *header)
{
    if (!take(header, '(')) return false;
    while (!take(header, ')')) {
        uint64_t size;
        if (!take_size(header, &size)) return false;
        if (header->axes < 2) header->shape[header->axes] = size;
        header->axes++;
        if (take(header, ',')) continue;
        return header->axes > 1 && take(header, ')'); /* "(n)" is a number, not a shape */
    }
    return true;
}

static bool take_order(npy_header *header)
{
    header->fortran = take_word(header, "True");
    return header->fortran || take_word(header, "False");
}

static bool take_descr(npy_header *header)
{
    if (take(header, '[')) {
        header->record = true;
        return false;
    }
    return take_text(header, header->descr, sizeof header->descr);
}

static bool take_entry(npy_header *header)
{
    char name[16];
    if (!take_text(header, name, sizeof name) || !take(header, ':')) return false;
    uint32_t key = 0;
    bool     fine = false;
    if (strcmp(name, "descr") == 0) {
        key = KEY_DESCR;
        fine = take_descr(header);
    } else if (strcmp(name, "fortran_order") == 0) {
        key = KEY_ORDER;
        fine = take_order(header);
    } else if (strcmp(name, "shape") == 0) {
        key = KEY_SHAPE;
        fine = take_shape(header);
    }
    if (!fine || header->keys & key) return false;
    header->keys |= key;
    return true;
}

static bool take_dict(npy_header *header)
{
    if (!take(header, '{')) return false;
    while (!take(header, '}')) {
        if (!take_entry(header)) return false;
        if (!take(header, ',')) {
            if (!take(header, '}')) return false;
            break;
        }
    }
    skip_blanks(header);
    return header->at == header->end && header->keys == KEY_ALL;
}

/* What a type letter stands for, where it is not a plain number. */
static const char *refused_kind(char letter)
{
    switch (letter) {
    case 'b': return "truth values";
    case 'O': return "Python objects";
    case 'c': return "complex numbers";
    case 'S':
    case 'a':
    case 'U': return "text";
    case 'V': return "records";
    case 'M':
    case 'm': return "times";
    default: return "a type that is not known";
    }
}

static nf_dtype plain_dtype(char letter, char digit)
{
    static const struct {
        char     letter, digit;
        nf_dtype dtype;
    } types[] = {
        {'u', '1', NF_DTYPE_U8},  {'u', '2', NF_DTYPE_U16}, {'u', '4', NF_DTYPE_U32}, {'u', '8', NF_DTYPE_U64},
        {'i', '1', NF_DTYPE_I8},  {'i', '2', NF_DTYPE_I16}, {'i', '4', NF_DTYPE_I32}, {'i', '8', NF_DTYPE_I64},
        {'f', '2', NF_DTYPE_F16}, {'f', '4', NF_DTYPE_F32}, {'f', '8', NF_DTYPE_F64},
    };
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        if (types[i].letter == letter && types[i].digit == digit) return types[i].dtype;
    }
    return NF_DTYPE_NONE;
}

/* "<f4": byte order, kind, bytes. */
static nf_status read_descr(nf_context *ctx, const nf_mapping *file, const char *descr, bool truth, nf_layout *layout)
{
    const char  order = descr[0];
    const bool  ordered = order != '\0' && strchr("<>=|", order) != NULL;
    const char *type = ordered ? descr + 1 : descr;
    layout->dtype = strlen(type) == 2 ? plain_dtype(type[0], type[1]) : NF_DTYPE_NONE;
    if (truth && strcmp(type, "b1") == 0) layout->dtype = NF_DTYPE_U8;
    if (layout->dtype == NF_DTYPE_NONE) {
        return nf_fail(ctx, NF_ERR_FORMAT, "%s: holds %s (type '%s'); f2 f4 f8, i1 to i8 and u1 to u8 can be read",
                       file->path, refused_kind(type[0]), descr);
    }
    const size_t bytes = nf_dtype_bytes(layout->dtype);
    if (bytes > 1 && (!ordered || order == '|')) {
        return nf_fail(ctx, NF_ERR_FORMAT, "%s: type '%s' does not say its byte order", file->path, descr);
    }
    const bool little = order == '<' || (order == '=' && !nf_little_is_swapped());
    layout->swapped = bytes > 1 && little == nf_little_is_swapped();
    return NF_OK;
}

static nf_status read_shape(nf_context *ctx, const nf_mapping *file, const npy_header *header, nf_layout *layout)
{
    if (header->axes != 1 && header->axes != 2) {
        return nf_fail(ctx, NF_ERR_FORMAT, "%s: array has %" PRIu32 " axes; 1 or 2 are allowed", file->path,
                       header->axes);
    }
    const uint64_t dims = header->axes == 2 ? header->shape[1] : 1;
    NF_TRY(nf_dims_check(ctx, file->path, dims));
    layout->rows = header->shape[0];
    layout->dims = (uint32_t)dims;
    layout->fortran = header->fortran;
    layout->stride = dims * nf_dtype_bytes(layout->dtype);
    return NF_OK;
}

static nf_status check_size(nf_context *ctx, const nf_mapping *file, const nf_layout *layout)
{
    const uint64_t found = file->bytes - layout->offset;
    uint64_t       said;
    if (!nf_multiply(layout->rows, layout->stride, &said)) {
        return nf_fail(ctx, NF_ERR_FORMAT, "%s: header says %" PRIu64 " x %" PRIu32 " %s, more than any file holds",
                       file->path, layout->rows, layout->dims, nf_dtype_name(layout->dtype));
    }
    if (said == found) return NF_OK;
    return nf_fail(ctx, NF_ERR_FORMAT,
                   "%s: header says %" PRIu64 " x %" PRIu32 " %s (%" PRIu64 " bytes), file holds %" PRIu64
                   " bytes after the header",
                   file->path, layout->rows, layout->dims, nf_dtype_name(layout->dtype), said, found);
}

/* Finds the header's text: where it begins and ends in the file. */
static nf_status find_header(nf_context *ctx, const nf_mapping *file, uint64_t *begin, uint64_t *end)
{
    if (file->bytes < MAGIC_BYTES || memcmp(file->data, "\x93NUMPY", MAGIC_BYTES) != 0) {
        return nf_fail(ctx, NF_ERR_FORMAT, "%s: does not begin like a .npy file", file->path);
    }
    const uint32_t version = file->bytes > MAGIC_BYTES ? file->data[MAGIC_BYTES] : 0;
    if (file->bytes > MAGIC_BYTES && (version < 1 || version > 3)) {
        return nf_fail(ctx, NF_ERR_VERSION, "%s: .npy version %" PRIu32 "; 1 to 3 can be read", file->path, version);
    }
    *begin = MAGIC_BYTES + 2 + (version == 1 ? 2 : 4);
    if (file->bytes < *begin) {
        return nf_fail(ctx, NF_ERR_FORMAT, "%s: file ends after %" PRIu64 " bytes, in the header", file->path,
                       file->bytes);
    }
    const uint8_t *length = file->data + MAGIC_BYTES + 2;
    *end = *begin + (version == 1 ? length[0] | (uint32_t)length[1] << 8 : nf_load_u32(length));
    if (*end <= file->bytes) return NF_OK;
    return nf_fail(ctx, NF_ERR_FORMAT,
                   "%s: header of %" PRIu64 " bytes goes beyond the end of the file (%" PRIu64 " bytes)", file->path,
                   *end - *begin, file->bytes);
}

static nf_status find_layout(nf_context *ctx, const nf_mapping *file, bool truth, nf_layout *layout)
{
    uint64_t begin = 0, end = 0;
    NF_TRY(find_header(ctx, file, &begin, &end));
    const char *text = (const char *)file->data;
    npy_header  header = {.at = text + begin, .end = text + end};
    if (!take_dict(&header)) {
        if (header.record) return nf_fail(ctx, NF_ERR_FORMAT, "%s: holds records with named fields", file->path);
        return nf_fail(ctx, NF_ERR_FORMAT, "%s: header cannot be understood at byte %" PRIu64, file->path,
                       (uint64_t)(header.at - text));
    }
    NF_TRY(read_descr(ctx, file, header.descr, truth, layout));
    NF_TRY(read_shape(ctx, file, &header, layout));
    layout->offset = end;
    snprintf(layout->detail, sizeof layout->detail, "version %d%s%s", file->data[MAGIC_BYTES],
             layout->fortran ? ", Fortran order" : "", layout->swapped ? ", other byte order" : "");
    return check_size(ctx, file, layout);
}

nf_status nf_npy_layout(nf_context *ctx, const nf_mapping *file, const nf_read_params *params, nf_layout *layout)
{
    (void)params;
    return find_layout(ctx, file, false, layout);
}

nf_status nf_npy_layout_with_truth(nf_context *ctx, const nf_mapping *file, nf_layout *layout)
{
    return find_layout(ctx, file, true, layout);
}
