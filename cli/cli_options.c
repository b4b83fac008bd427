/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parsing of a command line. Forms: --name value, --name=value, -o value, -ovalue, flags without a value; "--" ends the
 * options and "-" alone is an argument. Names are written out in full, so that a later option cannot change what a
 * script means. The last of several equal options counts.
 */
#include "cli_options.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli_error.h"
#include "cli_text.h"

/* An option as found on the line. */
typedef struct found_option {
    const cli_option_set *set;
    const nf_param       *param;
} found_option;

const nf_param *cli_set_params(const cli_option_set *set, size_t *count)
{
    if (set->group != CLI_OWN) return nf_params((nf_param_group)set->group, count);
    *count = set->own_count;
    return set->own;
}

/* Whether word is one of the words of list. */
static bool list_has(const char *list, const char *word)
{
    const size_t length = strlen(word);
    for (const char *at = list; at != NULL; at = strchr(at, ' ')) {
        at += *at == ' ';
        if (strncmp(at, word, length) == 0 && (at[length] == ' ' || at[length] == '\0')) return true;
    }
    return false;
}

bool cli_set_takes(const cli_option_set *set, const nf_param *param)
{
    return set->only == NULL || list_has(set->only, param->name);
}

char cli_option_letter(const char *name)
{
    static const char *const with_letter[] = {"output", "quiet", "help", "k"};
    for (size_t i = 0; i < sizeof with_letter / sizeof with_letter[0]; i++) {
        if (strcmp(name, with_letter[i]) == 0) return name[0];
    }
    return 0;
}

bool cli_option_needs_value(const nf_param *param)
{
    return param->kind != NF_PARAM_FLAG;
}

void cli_settings_init(cli_settings *settings)
{
    memset(settings, 0, sizeof *settings);
    nf_context_params_init(&settings->context);
    nf_radius_params_init(&settings->radius);
    nf_radius_index_params_init(&settings->radius_index);
    nf_read_params_init(&settings->read);
    nf_write_params_init(&settings->write);
    nf_generate_params_init(&settings->generate);
    nf_knn_params_init(&settings->knn);
    nf_dbscan_params_init(&settings->dbscan);
    settings->dbscan.radius = NAN;
    nf_sample_params_init(&settings->sample);
    settings->selectivity = (double)NAN;
    nf_ivf_params_init(&settings->ivf);
    nf_ivf_search_params_init(&settings->ivf_search);
    nf_ivf_open_params_init(&settings->ivf_open);
    settings->radius.radius = (double)NAN;
    settings->ivf_search.recall = (double)NAN;
    settings->repeat = 1;
}

/* A parameter matches by its full name, or by its letter. */
static bool matches(const nf_param *param, const char *name, size_t length)
{
    if (length == 1 && name[0] == cli_option_letter(param->name)) return true;
    return strlen(param->name) == length && strncmp(param->name, name, length) == 0;
}

static found_option find(const cli_command *command, const char *name, size_t length)
{
    for (const cli_option_set *set = command->sets; set->title != NULL; set++) {
        size_t          count;
        const nf_param *params = cli_set_params(set, &count);
        for (size_t i = 0; i < count; i++) {
            if (cli_set_takes(set, &params[i]) && matches(&params[i], name, length)) {
                return (found_option){set, &params[i]};
            }
        }
    }
    return (found_option){NULL, NULL};
}

/* The option whose name is nearest to a misspelt one: few edits, or the only one that begins so. */
static const char *nearest_name(const cli_command *command, const char *name)
{
    const char *nearest = NULL;
    unsigned    distance = strlen(name) < 5 ? 2 : 3; /* fewer edits than that */
    for (const cli_option_set *set = command->sets; set->title != NULL; set++) {
        size_t          count;
        const nf_param *params = cli_set_params(set, &count);
        for (size_t i = 0; i < count; i++) {
            unsigned edits = cli_edit_distance(name, params[i].name);
            if (strlen(name) > 2 && strncmp(name, params[i].name, strlen(name)) == 0) edits = 0;
            if (!cli_set_takes(set, &params[i]) || edits >= distance) continue;
            distance = edits;
            nearest = params[i].name;
        }
    }
    return nearest;
}

static int unknown_option(cli_run *run, const char *word)
{
    char        name[64];
    const char *start = word + strspn(word, "-");
    snprintf(name, sizeof name, "%.*s", (int)strcspn(start, "="), start);
    const char *nearest = nearest_name(run->command, name);
    if (nearest == NULL) return cli_fail_usage(run, "%s has no option '%s'", run->command->name, word);
    return cli_fail_usage(run, "%s has no option '%s', did you mean '--%s'?", run->command->name, word, nearest);
}

static nf_status bad_value(nf_error *error, const nf_param *param, const char *value)
{
    char allowed[96];
    if (param->kind == NF_PARAM_CHOICE) snprintf(allowed, sizeof allowed, "allowed are %s", param->choices);
    else if (param->maximum > 0)
        snprintf(allowed, sizeof allowed, "allowed are numbers from %.17g to %.17g", param->minimum, param->maximum);
    else snprintf(allowed, sizeof allowed, "a number of at least 0 is needed");
    snprintf(error->text, sizeof error->text, "%s is '%.200s', %s", param->name, value, allowed);
    return NF_ERR_ARGUMENT;
}

static nf_status set_own_choice(const nf_param *param, char *member, const char *value, nf_error *error)
{
    uint32_t     index = 0;
    const size_t length = strlen(value);
    for (const char *at = param->choices;; index++) {
        const size_t span = strcspn(at, "|");
        if (span == length && strncmp(at, value, span) == 0) break;
        if (at[span] == '\0') return bad_value(error, param, value);
        at += span + 1;
    }
    memcpy(member, &index, sizeof index);
    return NF_OK;
}

/* Whole numbers: digits alone, within the bounds. */
static nf_status set_own_whole(const nf_param *param, char *member, const char *value, nf_error *error)
{
    const uint64_t most = param->kind == NF_PARAM_U32 ? UINT32_MAX : UINT64_MAX;
    errno = 0;
    const unsigned long long whole = strtoull(value, NULL, 10);
    if (value[0] == '\0' || value[strspn(value, "0123456789")] != '\0' || errno != 0 || whole > most ||
        (double)whole < param->minimum || (param->maximum > 0 && (double)whole > param->maximum)) {
        return bad_value(error, param, value);
    }
    const uint32_t narrow = (uint32_t)whole;
    const uint64_t wide = whole;
    if (param->kind == NF_PARAM_U32) memcpy(member, &narrow, sizeof narrow);
    else memcpy(member, &wide, sizeof wide);
    return NF_OK;
}

static nf_status set_own_real(const nf_param *param, char *member, const char *value, nf_error *error)
{
    char        *end = NULL;
    const double real = strtod(value, &end);
    const double most = param->maximum > 0 ? param->maximum : HUGE_VAL;
    if (end == value || *end != '\0' || !(real >= param->minimum && real <= most)) {
        return bad_value(error, param, value);
    }
    memcpy(member, &real, sizeof real);
    return NF_OK;
}

static nf_status set_own_flag(const nf_param *param, char *member, const char *value, nf_error *error)
{
    const uint32_t one = 1;
    if (param->value != NULL) { /* with an optional value */
        const char *text = value != NULL ? value : "-";
        if (text[0] == '\0') {
            snprintf(error->text, sizeof error->text, "%s= needs a value, not an empty one", param->name);
            return NF_ERR_ARGUMENT;
        }
        memcpy(member, &text, sizeof text);
        return NF_OK;
    }
    if (value != NULL) {
        snprintf(error->text, sizeof error->text, "%s takes no value", param->name);
        return NF_ERR_ARGUMENT;
    }
    memcpy(member, &one, sizeof one);
    return NF_OK;
}

static nf_status set_own(cli_settings *settings, const nf_param *param, const char *value, nf_error *error)
{
    char *member = (char *)settings + param->offset;
    switch (param->kind) {
    case NF_PARAM_FLAG: return set_own_flag(param, member, value, error);
    case NF_PARAM_CHOICE: return set_own_choice(param, member, value, error);
    case NF_PARAM_F64: return set_own_real(param, member, value, error);
    case NF_PARAM_TEXT: memcpy(member, &value, sizeof value); return NF_OK;
    default: return set_own_whole(param, member, value, error);
    }
}

static nf_status set_option(cli_settings *settings, const found_option *option, const char *value, nf_error *error)
{
    const char *name = option->param->name;
    switch (option->set->group) {
    case NF_PARAMS_CONTEXT: return nf_context_params_set(&settings->context, name, value, error);
    case NF_PARAMS_RADIUS: return nf_radius_params_set(&settings->radius, name, value, error);
    case NF_PARAMS_RADIUS_INDEX: return nf_radius_index_params_set(&settings->radius_index, name, value, error);
    case NF_PARAMS_READ: return nf_read_params_set(&settings->read, name, value, error);
    case NF_PARAMS_WRITE: return nf_write_params_set(&settings->write, name, value, error);
    case NF_PARAMS_KNN: return nf_knn_params_set(&settings->knn, name, value, error);
    case NF_PARAMS_DBSCAN: return nf_dbscan_params_set(&settings->dbscan, name, value, error);
    case NF_PARAMS_IVF: return nf_ivf_params_set(&settings->ivf, name, value, error);
    case NF_PARAMS_IVF_OPEN: return nf_ivf_open_params_set(&settings->ivf_open, name, value, error);
    case NF_PARAMS_IVF_SEARCH: return nf_ivf_search_params_set(&settings->ivf_search, name, value, error);
    default: return set_own(settings, option->param, value, error);
    }
}

/* The name and the value in one word: where each begins. */
typedef struct option_word {
    const char *name;
    size_t      length;
    const char *value; /* NULL: not in this word */
} option_word;

static option_word split(const char *word)
{
    option_word out = {word + 1, 1, word[2] != '\0' ? word + 2 : NULL};
    if (word[1] != '-') return out;
    out.name = word + 2;
    out.length = strcspn(out.name, "=");
    out.value = out.name[out.length] == '=' ? out.name + out.length + 1 : NULL;
    return out;
}

/* Takes one option at *at, and its value where that is the next word. */
static int take_option(cli_run *run, int argc, char **argv, int *at)
{
    const char        *word = argv[*at];
    option_word        parts = split(word);
    const found_option option = find(run->command, parts.name, parts.length);
    nf_error           error = {0};

    /* A letter stands behind one dash only, but for an option whose whole name it is. */
    if (option.param == NULL || (word[1] == '-' && parts.length == 1 && option.param->name[1] != '\0')) {
        return unknown_option(run, word);
    }
    if (cli_option_needs_value(option.param) && parts.value == NULL) {
        if (*at + 1 >= argc) return cli_fail_usage(run, "--%s needs a value", option.param->name);
        parts.value = argv[++*at];
    }
    if (cli_option_needs_value(option.param) && parts.value[0] == '\0') {
        return cli_fail_usage(run, "--%s needs a value, not an empty one", option.param->name);
    }
    if (set_option(&run->settings, &option, parts.value, &error) == NF_OK) return 0;
    return cli_fail_usage(run, "--%s", error.text);
}

static int take_argument(cli_run *run, const char *word)
{
    cli_settings *settings = &run->settings;
    if (settings->argument_count >= run->command->max_arguments) {
        return cli_fail_usage(run, "%s: one argument too many: '%s'", run->command->name, word);
    }
    settings->arguments[settings->argument_count++] = word;
    return 0;
}

int cli_parse(cli_run *run, int argc, char **argv)
{
    bool options = true;
    int  code = 0;
    for (int at = 0; at < argc && code == 0; at++) {
        const char *word = argv[at];
        if (options && strcmp(word, "--") == 0) options = false;
        else if (options && word[0] == '-' && word[1] != '\0') code = take_option(run, argc, argv, &at);
        else code = take_argument(run, word);
    }
    if (code != 0 || run->settings.help) return code;
    if (run->settings.argument_count < run->command->min_arguments) {
        return cli_fail_usage(run, "%s: an argument is missing: nearfield %s %s", run->command->name,
                              run->command->name, run->command->synopsis);
    }
    return 0;
}
