/* SPDX-License-Identifier: Apache-2.0 */
/* The number parser of text files beside strtod: what it reads has strtod's value to the bit, and it reads all that
 * strtod reads as a whole (but hexadecimal digits and NaNs with a payload, which are no decimals). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz_common.h"
#include "io/io_csv.h"

#define MOST 2048u

static int same(double a, double b)
{
    return memcmp(&a, &b, sizeof a) == 0 || (isnan(a) && isnan(b));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char text[MOST + 1], *rest = NULL;
    if (size == 0 || size > MOST) return 0;
    memcpy(text, data, size);
    text[size] = 0;

    /* A block of exactly these bytes, so that reading behind them is seen. */
    char *exact = malloc(size);
    fuzz_demand(exact != NULL, "memory for the input");
    memcpy(exact, data, size);
    const char  *at = exact;
    double       value = 0;
    const int    found = nf_number_read(&at, exact + size, &value);
    const size_t taken = (size_t)(at - exact);
    fuzz_demand(!found || (taken >= 1 && taken <= size), "a number has a length");
    free(exact);

    const double whole = strtod(text, &rest);
    const int    decimal = strpbrk(text, "xX(\t\n\v\f\r ") == NULL;
    if (decimal && rest == text + size) {
        fuzz_demand(found && taken == size && same(value, whole), "all that strtod reads is read, with the same value");
    }
    if (found) {
        text[taken] = 0;
        fuzz_demand(same(value, strtod(text, &rest)) && rest == text + taken, "the value is strtod's");
    }
    return 0;
}
