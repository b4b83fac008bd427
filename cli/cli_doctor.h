/* SPDX-License-Identifier: Apache-2.0 */
/* The self-test of nearfield doctor. */
#ifndef CLI_DOCTOR_H
#define CLI_DOCTOR_H

#include "nearfield/nearfield.h"

#define CLI_SELFTEST_TEXT 256

typedef enum cli_selftest_result { CLI_TEST_PASSED, CLI_TEST_LEFT_OUT, CLI_TEST_FAILED } cli_selftest_result;

/*
 * Joins a lattice, whose number of pairs a formula gives, and a set of clusters, whose number of pairs must be that of
 * comparing each pair in binary64 here, by every method of finding candidates, with one engine, and of the CPU's with one
 * instruction set. Ray tracing is left out where the GPU has none. text: why it failed or was left out; empty when it
 * passed.
 */
cli_selftest_result cli_selftest(nf_engine_kind engine, nf_isa isa, int32_t device, char text[CLI_SELFTEST_TEXT]);

#endif
