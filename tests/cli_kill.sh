#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Results that replace older ones, with the command killed at each system call that touches files: under the final name
# the old or the new file is whole; beside it only temporary files (.NAME.*.tmp), and the next run succeeds. Needs strace.
# (Saving an index: cli_ivf_inject.sh.)
. "$SOURCE_DIR/tests/script_helpers.sh"
strace -qq -o trace -e trace=write true 2>/dev/null || { echo "strace cannot be used here"; exit 77; }
if grep -qs '^NEARFIELD_SANITIZE:.*thread' "${BUILD_DIR:-.}/CMakeCache.txt"; then
    echo "ThreadSanitizer makes system calls of its own"
    exit 77
fi
export ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0" # it looks for leaks by ptrace itself
export LSAN_OPTIONS=detect_leaks=0

run 0 generate uniform -o data.npy --rows 500 --dims 3 --seed 1 -q

# killed NAME COMMAND...: the command writes place/NAME; over an older file of that name.
killed() {
    local name=$1 call number ended=0 code left
    shift
    rm -rf place && mkdir place
    run 0 "$@" -o "place/$name" --threads 1 -q
    mv "place/$name" "new_$name"
    printf 'old' >"old_$name"
    for call in openat pwrite64 write fallocate fsync rename close; do
        number=1
        while :; do
            cp "old_$name" "place/$name"
            ( # of its own, so that the shell's word about a killed process goes nowhere
                strace -f -qq -o trace -e trace=$call -e inject=$call:signal=KILL:when=$number \
                    "$NEARFIELD" "$@" -o "place/$name" --threads 1 -q >out 2>err
                exit $?
            ) 2>/dev/null
            code=$?
            cmp -s "place/$name" "old_$name" || cmp -s "place/$name" "new_$name" ||
                fail "$name: killed at $call $number: a torn file"
            for left in $(ls -A place); do
                case $left in
                "$name") ;;
                ."$name".*.tmp) rm -f "place/$left" ;;
                *) fail "$name: killed at $call $number: $left is left" ;;
                esac
            done
            grep -q 'killed by SIGKILL' trace || break
            ended=$((ended + 1))
            number=$((number + 1))
            [ $number -lt 200 ] || { fail "$call: never without a signal"; break; }
        done
        is $code 0 "exit code of a run that is not killed"
        same "place/$name" "new_$name"
    done
    [ $ended -gt 0 ] || fail "$name: nothing was killed"
    echo "$name: killed $ended times"
}

killed join.npz join data.npy --radius 0.2
killed join.npy join data.npy --radius 0.2
killed knn.npz knn data.npy data.npy -k 4
finish
