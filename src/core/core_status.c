/* SPDX-License-Identifier: Apache-2.0 */
/* Names and texts of statuses, from the one list in status.h; the library's version. */
#include "nearfield/status.h"
#include "nearfield/version.h"

const char *nf_status_name(nf_status status)
{
    switch (status) {
#define STATUS_NAME(name, number, text) \
    case name: return #name;
        NF_STATUS_MAP(STATUS_NAME)
#undef STATUS_NAME
    }
    return "NF_UNKNOWN";
}

const char *nf_status_text(nf_status status)
{
    switch (status) {
#define STATUS_TEXT(name, number, text) \
    case name: return text;
        NF_STATUS_MAP(STATUS_TEXT)
#undef STATUS_TEXT
    }
    return "unknown status";
}

const char *nf_version(void)
{
    return NF_VERSION;
}
