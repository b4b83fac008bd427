#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# on_gpu.sh COMMAND...: runs a test with the CUDA engine; without a GPU that can be used the test is skipped (77).
# Environment: NEARFIELD (the command), NEARFIELD_ENGINE=cuda, NEARFIELD_MODULE_DIR.
set -u
said=$("$NEARFIELD" version)
case $said in
    *$'\n'"engine cuda, "*) exec "$@" ;;
esac
printf '%s\n' "$said"
exit 77
