#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds and tests Nearfield. Installs what is missing (Debian, Ubuntu), says how long each stage took, and ends with
# one line: "<N> passed, <M> failed". A stage that is no test (a build) counts only when it fails.
#
#   ./test.sh         release build and its tests
#   ./test.sh --all   also: every instruction set of this processor, AddressSanitizer with UndefinedBehaviorSanitizer,
#                     ThreadSanitizer, clang (where installed), AArch64 under qemu (on Debian, x86-64), large data (where
#                     NEARFIELD_DATA names the folder)
#   ./test.sh --gpu   release build for the GPU of this machine, and the tests of the CUDA engine on it
set -u -o pipefail
cd "$(dirname "${BASH_SOURCE[0]}")" || exit 1
source tools/packages.sh

jobs=$(nproc)
passed=0
failed=0
skipped=0
stage_lines=()
ctest_line=""
packages=(cmake ninja-build gcc g++ libc6-dev pkg-config zlib1g-dev libxxhash-dev libcmocka-dev python3)
arm_packages=(gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user)
arm_kernel_tests=(test_kernels test_kernels_pack test_kernels_select test_ivf_kernels test_cpu_sort)
arm_tests=(test_matrix_exact test_core_status test_exact_metamorphic test_exact_refused test_ivf_golden)
only_once='large|install|tree|gpu' # labels of tests that the plain release run settles

# Other exit codes than the command's own, so that no test takes a sanitizer's report for an expected failure.
export ASAN_OPTIONS="exitcode=99:detect_leaks=1:strict_string_checks=1${ASAN_OPTIONS:+:$ASAN_OPTIONS}"
export UBSAN_OPTIONS="exitcode=99:print_stacktrace=1${UBSAN_OPTIONS:+:$UBSAN_OPTIONS}"
export TSAN_OPTIONS="exitcode=99:halt_on_error=1${TSAN_OPTIONS:+:$TSAN_OPTIONS}"

usage() {
    sed -n '/^#   \.\/test\.sh/,/^set /p' "$0" | sed '$d; s/^# *//'
}

# stage NAME COMMAND...: runs one stage, keeps its time and result. The result of the last stage is $?.
stage() {
    local name=$1 start=$SECONDS status
    shift
    printf '\n== %s\n' "$name"
    "$@"
    status=$?
    local word=ok
    [ $status -eq 0 ] || word=FAILED
    stage_lines+=("$(printf '%5d s  %-6s  %s' $((SECONDS - start)) "$word" "$name")")
    return $status
}

# A stage that is no test: counts as one failure when it fails.
work_stage() {
    stage "$@" && return 0
    failed=$((failed + 1))
    return 1
}

# The device whose code a build holds: the one here, or one of no importance, so that all of it is compiled but not eight
# times. A build for users has them all.
cuda_architectures() {
    if command -v nvidia-smi >/dev/null && nvidia-smi -L 2>/dev/null | grep -q '^GPU'; then
        echo native
    else
        echo 90
    fi
}

build() { # PRESET
    cmake --preset "$1" -DNEARFIELD_CUDA_ARCHITECTURES="$(cuda_architectures)" &&
        cmake --build --preset "$1" --parallel "$jobs"
}

# Number in attribute $2 of the first tag of a JUnit file.
junit_number() {
    sed -n "s/^[[:space:]]*$2=\"\([0-9]*\)\".*/\1/p; /<testcase/q" "$1" | head -n 1
}

# run_ctest PRESET ARGUMENT...: runs tests and adds up their results.
run_ctest() {
    local preset=$1 junit status tests bad left
    shift
    junit=$PWD/build/$preset/junit.xml
    rm -f "$junit"
    "${wrapper[@]}" ctest --preset "$preset" --parallel "$jobs" --no-tests=error --output-junit "$junit" "$@" |
        tee "build/$preset/ctest.log"
    status=$?
    ctest_line=$(grep -E '^[0-9]+% tests passed' "build/$preset/ctest.log")
    tests=$(junit_number "$junit" tests)
    bad=$(junit_number "$junit" failures)
    left=$(($(junit_number "$junit" disabled) + $(junit_number "$junit" skipped)))
    if [ -z "$tests" ] || { [ $status -ne 0 ] && [ "$bad" -eq 0 ]; }; then
        failed=$((failed + 1))
        return 1
    fi
    passed=$((passed + tests - bad - left))
    failed=$((failed + bad))
    skipped=$((skipped + left))
    return $status
}

build_and_test() { # PRESET, LABELS TO LEAVE OUT
    work_stage "build $1" build "$1" && stage "test $1" run_ctest "$1" --label-exclude "$2"
}

# Whether the release build can run with an instruction set here. Exit code 6 says no; anything else is for the tests.
isa_is_available() {
    NEARFIELD_ISA=$1 build/release/nearfield info data/tabular/letter.csv >/dev/null 2>&1
    [ $? -ne 6 ]
}

# Why the CUDA engine cannot be used; empty when it can.
gpu_reason() {
    local said
    said=$(build/release/nearfield doctor --json) # its exit code speaks of the self-test
    case $said in
        *'"gpu": {"usable": true'*) return ;;
    esac
    said=$(sed -n 's/.*"engines": {[^}]*"cuda": "\([^"]*\)".*/\1/p' <<<"$said")
    echo "${said:-nearfield doctor says nothing of it}"
}

# Without a GPU this is no failure: there is nothing to test.
test_gpu() {
    local reason
    work_stage "build release" build release || return
    reason=$(gpu_reason)
    if [ -n "$reason" ]; then
        echo "The CUDA engine cannot be used here, so nothing is tested: $reason"
        echo "0 passed, 0 failed"
        exit 0
    fi
    work_stage "doctor" build/release/nearfield doctor
    NEARFIELD_ENGINE=cuda stage "test release, GPU" run_ctest release --label-regex gpu
}

# The release run has taken the best one already.
test_each_isa() {
    local isa best
    best=$(build/release/nearfield join data/tabular/letter.csv --rows 0:2 --radius 1 --json --quiet | sed -n 's/.*"isa": "\([a-z0-9]*\)".*/\1/p')
    for isa in scalar avx2 avx512 neon; do
        if [ "$isa" = "$best" ]; then
            stage_lines+=("    -    see above  test release, NEARFIELD_ISA=$isa: what the release run takes")
        elif isa_is_available "$isa"; then
            NEARFIELD_TEST_SHORT=1 NEARFIELD_ISA=$isa stage "test release, NEARFIELD_ISA=$isa" run_ctest release --label-exclude "$only_once|digest|emulated"
        else
            stage_lines+=("    -    left out  test release, NEARFIELD_ISA=$isa: not on this processor")
        fi
    done
}

# ThreadSanitizer needs an address layout that newer kernels do not always give; without randomisation they do.
test_tsan() {
    if setarch "$(uname -m)" -R true 2>/dev/null; then
        wrapper=(setarch "$(uname -m)" -R)
    fi
    NEARFIELD_TEST_SHORT=1 build_and_test tsan "$only_once"
    wrapper=()
}

build_aarch64() {
    cmake --preset aarch64 &&
        cmake --build --preset aarch64 --parallel "$jobs" --target nearfield nearfield_cli nearfield_digest \
            "${arm_kernel_tests[@]}" "${arm_tests[@]}"
}

# AArch64 under qemu: what does not depend on the instruction set is left to the other builds. The tests of kernels go
# through all instruction sets by themselves; cortex-a53 has no dot product instructions, max has all that qemu knows.
test_aarch64() {
    local kernels others
    if [ "$(uname -m)" != x86_64 ] || ! grep -q '^ID=debian' /etc/os-release 2>/dev/null; then
        stage_lines+=("    -    left out  AArch64: needs Debian on x86-64")
        return
    fi
    work_stage "packages for AArch64" need_packages "${arm_packages[@]}" || return
    if ! tools/arm64_sysroot.sh build/sysroot-aarch64; then # a mirror need not have them
        stage_lines+=("    -    left out  AArch64: its libraries cannot be fetched here")
        return
    fi
    work_stage "build aarch64" build_aarch64 || return
    kernels=$(IFS='|' && echo "${arm_kernel_tests[*]}")
    others=$(IFS='|' && echo "${arm_tests[*]}")
    QEMU_CPU=max NEARFIELD_ISA=neon stage "test aarch64, neon with dot products" \
        run_ctest aarch64 --tests-regex "^($kernels|$others|digest_letter_radius_3)\$"
    QEMU_CPU=cortex-a53 NEARFIELD_ISA=neon stage "test aarch64, neon without dot products" \
        run_ctest aarch64 --tests-regex "^($kernels|test_exact_metamorphic)\$"
    QEMU_CPU=max NEARFIELD_ISA=scalar stage "test aarch64, scalar" run_ctest aarch64 --tests-regex "^($others)\$"
}

test_all() {
    test_each_isa
    NEARFIELD_TEST_SHORT=1 build_and_test asan "$only_once"
    test_tsan
    if command -v clang >/dev/null; then
        build_and_test clang "$only_once|emulated"
    else
        stage_lines+=("    -    left out  clang: not installed")
    fi
    test_aarch64
    if [ -n "${NEARFIELD_DATA:-}" ]; then
        stage "test release, large data" run_ctest release --label-regex large --label-exclude gpu
    else
        stage_lines+=("    -    left out  large data: NEARFIELD_DATA is not set")
    fi
}

summary() {
    printf '\n== Time per stage\n'
    printf '%s\n' "${stage_lines[@]}"
    printf '%5d s          all\n' "$SECONDS"
    [ "$skipped" -eq 0 ] || printf '%d tests skipped\n' "$skipped"
    [ -n "$mode" ] || printf '%s\n' "$ctest_line"
    printf '%d passed, %d failed\n' "$passed" "$failed"
}

wrapper=()
mode=${1:-}
case $mode in
    "" | --all | --gpu) ;;
    -h | --help) usage; exit 0 ;;
    *) echo "test.sh: unknown argument '$mode'" >&2; usage >&2; exit 2 ;;
esac

if work_stage "packages" need_packages "${packages[@]}"; then
    if [ "$mode" = --gpu ]; then
        test_gpu
    elif build_and_test release 'large|gpu' || [ -x build/release/nearfield ]; then
        [ "$mode" != --all ] || test_all
    fi
fi
summary
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
