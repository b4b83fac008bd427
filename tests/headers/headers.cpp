/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The public headers from C++. The generated files that are linked in prove that each header compiles alone and twice in
 * C and C++; this one proves that C++ can link and call the library, and that header and library agree on the version.
 */
#include <cstdio>
#include <cstring>

#include "nearfield/nearfield.h"

static int fail(const char *what)
{
    std::fprintf(stderr, "test_headers: %s\n", what);
    return 1;
}

int main()
{
    char joined[64];
    std::snprintf(joined, sizeof joined, "%d.%d.%d", NF_VERSION_MAJOR, NF_VERSION_MINOR, NF_VERSION_PATCH);
    if (std::strcmp(joined, NF_VERSION) != 0) return fail("NF_VERSION differs from its parts");
    if (std::strcmp(nf_version(), NF_VERSION) != 0) return fail("nf_version() differs from NF_VERSION");
    if (std::strcmp(nf_status_name(NF_ERR_LIMIT), "NF_ERR_LIMIT") != 0) return fail("nf_status_name");

    nf_context *ctx = nullptr;
    nf_error error;
    if (nf_context_create(nullptr, &ctx, &error) != NF_OK) return fail(error.text);
    nf_context_destroy(ctx);
    return 0;
}
