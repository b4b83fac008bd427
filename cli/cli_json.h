/* SPDX-License-Identifier: Apache-2.0 */
/* Writes one JSON object into memory. */
#ifndef CLI_JSON_H
#define CLI_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct cli_json {
    char  *text; /* released by cli_json_free */
    size_t length, capacity;
    bool   comma;  /* the next member needs one before it */
    bool   failed; /* no memory; the rest is ignored */
} cli_json;

/* An object begins with cli_json_open(json, NULL) and ends with cli_json_close; members in between. key NULL: no
 * key. */
void cli_json_open(cli_json *json, const char *key);
void cli_json_close(cli_json *json);

/* An array; its members have no key. */
void cli_json_open_array(cli_json *json, const char *key);
void cli_json_close_array(cli_json *json);

void cli_json_text(cli_json *json, const char *key, const char *value); /* NULL: null */
void cli_json_count(cli_json *json, const char *key, uint64_t value);

/* 17 significant digits, which give the same binary64 back. JSON has no NaN and no infinity: null stands for them. */
void cli_json_number(cli_json *json, const char *key, double value);
void cli_json_flag(cli_json *json, const char *key, bool value);

void cli_json_free(cli_json *json);

#endif
