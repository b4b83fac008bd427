/* SPDX-License-Identifier: Apache-2.0 */
/* Writes one JSON object into memory. Texts that are not UTF-8 (a file name may be anything) are made so: each byte
 * that does not belong to a well-formed sequence becomes U+FFFD. */
#include "cli_json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void append(cli_json *json, const char *bytes, size_t count)
{
    if (json->failed) return;
    if (json->capacity - json->length <= count) {
        const size_t capacity = 2 * json->capacity + count + 256;
        char        *grown = realloc(json->text, capacity);
        if (grown == NULL) {
            json->failed = true;
            return;
        }
        json->text = grown;
        json->capacity = capacity;
    }
    memcpy(json->text + json->length, bytes, count);
    json->length += count;
    json->text[json->length] = '\0';
}

static void append_text(cli_json *json, const char *text)
{
    append(json, text, strlen(text));
}

/* Length of the well-formed UTF-8 sequence at p (Unicode 15, table 3-7), 0: there is none. */
static size_t utf8_length(const unsigned char *p)
{
    unsigned char low = 0x80, high = 0xbf;
    size_t        length;

    if (p[0] < 0x80) return 1;
    if (p[0] >= 0xc2 && p[0] <= 0xdf) length = 2;
    else if (p[0] >= 0xe0 && p[0] <= 0xef) length = 3;
    else if (p[0] >= 0xf0 && p[0] <= 0xf4) length = 4;
    else return 0;
    if (p[0] == 0xe0) low = 0xa0;
    if (p[0] == 0xed) high = 0x9f;
    if (p[0] == 0xf0) low = 0x90;
    if (p[0] == 0xf4) high = 0x8f;
    if (p[1] < low || p[1] > high) return 0;
    for (size_t i = 2; i < length; i++) {
        if (p[i] < 0x80 || p[i] > 0xbf) return 0;
    }
    return length;
}

static void append_quoted(cli_json *json, const char *text)
{
    const unsigned char *p = (const unsigned char *)text;
    append_text(json, "\"");
    while (*p != '\0') {
        char         escape[8];
        const size_t length = utf8_length(p);
        if (length == 0) {
            append_text(json, "\\ufffd");
        } else if (*p == '"' || *p == '\\') {
            snprintf(escape, sizeof escape, "\\%c", *p);
            append_text(json, escape);
        } else if (*p < 0x20 || *p == 0x7f) {
            snprintf(escape, sizeof escape, "\\u%04x", *p);
            append_text(json, escape);
        } else {
            append(json, (const char *)p, length);
        }
        p += length > 0 ? length : 1;
    }
    append_text(json, "\"");
}

static void begin_member(cli_json *json, const char *key)
{
    if (json->comma) append_text(json, ", ");
    json->comma = true;
    if (key == NULL) return;
    append_quoted(json, key);
    append_text(json, ": ");
}

void cli_json_open(cli_json *json, const char *key)
{
    begin_member(json, key);
    append_text(json, "{");
    json->comma = false;
}

void cli_json_close(cli_json *json)
{
    append_text(json, "}");
    json->comma = true;
}

void cli_json_open_array(cli_json *json, const char *key)
{
    begin_member(json, key);
    append_text(json, "[");
    json->comma = false;
}

void cli_json_close_array(cli_json *json)
{
    append_text(json, "]");
    json->comma = true;
}

void cli_json_text(cli_json *json, const char *key, const char *value)
{
    begin_member(json, key);
    if (value == NULL) append_text(json, "null");
    else append_quoted(json, value);
}

void cli_json_count(cli_json *json, const char *key, uint64_t value)
{
    char digits[24];
    snprintf(digits, sizeof digits, "%llu", (unsigned long long)value);
    begin_member(json, key);
    append_text(json, digits);
}

void cli_json_number(cli_json *json, const char *key, double value)
{
    char digits[40];
    snprintf(digits, sizeof digits, "%.17g", value);
    begin_member(json, key);
    append_text(json, isfinite(value) ? digits : "null");
}

void cli_json_flag(cli_json *json, const char *key, bool value)
{
    begin_member(json, key);
    append_text(json, value ? "true" : "false");
}

void cli_json_free(cli_json *json)
{
    free(json->text);
    memset(json, 0, sizeof *json);
}
