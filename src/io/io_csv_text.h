/* SPDX-License-Identifier: Apache-2.0 */
/* Small operations on pieces of text. */
#ifndef NF_IO_CSV_TEXT_H
#define NF_IO_CSV_TEXT_H

#include <string.h>

#include "io_csv.h"

/* Bytes that hold any text shortened for a message. */
#define NF_TEXT_SHOWN 48

static inline nf_text nf_text_of(const char *text)
{
    return (nf_text){text, text + strlen(text)};
}

static inline bool nf_text_equal(nf_text a, nf_text b)
{
    const size_t length = (size_t)(a.end - a.begin);
    return length == (size_t)(b.end - b.begin) && memcmp(a.begin, b.begin, length) == 0;
}

/* Copies text for a message: in one line, cut with "..." where it is long, never inside a UTF-8 character. */
static inline void nf_text_show(nf_text text, char shown[NF_TEXT_SHOWN])
{
    const size_t length = (size_t)(text.end - text.begin);
    size_t       kept = length < NF_TEXT_SHOWN ? length : NF_TEXT_SHOWN - 4;
    while (kept < length && kept > 0 && ((unsigned char)text.begin[kept] & 0xC0) == 0x80) kept--;
    for (size_t i = 0; i < kept; i++) {
        const unsigned char c = (unsigned char)text.begin[i];
        shown[i] = c < ' ' || c == 0x7F ? '?' : text.begin[i];
    }
    memcpy(shown + kept, kept < length ? "..." : "", kept < length ? 4 : 1);
}

#endif
