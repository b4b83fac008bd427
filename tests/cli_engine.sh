#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Engines as the command sees them: one that cannot be used ends with 6 and the reason, doctor says what there is. The
# modules are those of tests/modules.
. "$SOURCE_DIR/tests/script_helpers.sh"
: "${BUILD_DIR:?root of the build}"
unset NEARFIELD_ENGINE NEARFIELD_ISA
printf '0,0\n3,4\n6,8\n' >p.csv

# with KIND CODE ARGUMENTS...: runs the command with a module of that kind.
with() {
    local kind=$1
    shift
    NEARFIELD_MODULE_DIR=$BUILD_DIR/modules/$kind run "$@"
}

# No module, no device.
with none 6 join p.csv --radius 1 --engine cuda
one_line "the cuda engine cannot be used: the cuda module is not there: no libnearfield-cuda.so in $BUILD_DIR/modules/none"
with none 6 knn p.csv p.csv --engine cuda
one_line "the cuda module is not there"
with no_device 6 join p.csv --radius 1 --engine cuda --device 4
one_line "the cuda engine cannot be used: there is no device 4"
with no_device 6 join p.csv --radius 1 -o x.npz --engine cuda
[ ! -e x.npz ] || fail "x.npz was made"
with other_version 6 join p.csv --radius 1 --engine cuda
one_line "the cuda module is version 0.0.77, this library"
with open_fails 6 join p.csv --radius 1 --engine cuda
one_line "device 0 is lost"
NEARFIELD_MODULE_DIR=modules run 6 join p.csv --radius 1 --engine cuda
one_line "NEARFIELD_MODULE_DIR is 'modules', an absolute path is needed"

# By environment.
NEARFIELD_ENGINE=cuda with none 6 join p.csv --radius 1
one_line "the cuda module is not there"
NEARFIELD_ENGINE=gpu with none 2 join p.csv --radius 1
one_line "NEARFIELD_ENGINE is 'gpu', allowed are auto, cpu, cuda"
NEARFIELD_ENGINE=cuda with none 0 join p.csv --radius 1 --engine cpu

# Work that the engine does not do: asked for by name it is an error, by environment the CPU does it.
with healthy 6 knn p.csv p.csv --engine cuda
one_line "the cuda engine does no exact k nearest neighbours in this version"
with healthy 6 knn p.csv p.csv --engine cuda --metric ip
one_line "the cuda engine does no exact k nearest neighbours by inner product or cosine in this version"
NEARFIELD_ENGINE=cuda with healthy 0 knn p.csv p.csv -k 1 --json
is "$(json engine)" '"cpu"' "engine of knn"
NEARFIELD_ENGINE=cuda with healthy 0 version
says out "engine cuda, Fake 0"

# Small work is the CPU's, with any module or none.
for kind in none no_device healthy; do
    with $kind 0 join p.csv --radius 5 --json
    is "$(json engine)" '"cpu"' "engine of a small join with $kind"
    [ -n "$(json isa)" ] || fail "no isa: $(cat out)"
    says out '"pairs": 4'
done

# Doctor.
with none 0 doctor
says out "cuda       cannot be used: the cuda module is not there"
says out "auto       cpu for all work"
says out "  cuda     left out: the cuda engine cannot be used: the cuda module is not there"
with open_fails 1 doctor --device 2
says err "the self-test failed"
says out "cuda       available"
says out "  device   Fake 2"
says out "  driver   CUDA 13.0"
says out "  memory   64.0 GiB, free 48.0 GiB"
says out "  RT cores version 3.0"
says out "  tracing  none: a fake"
says out "auto       cuda for joins by radius and approximate search of 50000 rows or more"
says out "  cuda     FAILED: device 2 is lost"
with open_fails 1 doctor --json
says out '"cuda": "available"'
says out '"gpu": {"usable": true, "device": "Fake 0", "driver": "CUDA 13.0", "memory_total": 68719476736, "memory_free": 51539607552, "rt_core_version": 30, "ray_tracing": "none: a fake"}'
with no_device 0 doctor --json
says out '"gpu": {"usable": false}'
says out '"cuda": "there is no device 0"'
with none 6 doctor --engine cuda
one_line "the cuda module is not there"
finish
