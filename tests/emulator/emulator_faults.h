// SPDX-License-Identifier: Apache-2.0
// Failures on purpose, inside the emulated device.
#ifndef NF_EMULATOR_FAULTS_H
#define NF_EMULATOR_FAULTS_H

#include "cuda_runtime_api.h"

// Counts a call that can fail; the error that it is to fail with, which is the last error then (emulator_control.h).
cudaError_t nf_emulated_fault();

#endif
