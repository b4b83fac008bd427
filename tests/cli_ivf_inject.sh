#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# nearfield build with one system call that fails, or that ends the process: the first, then the second, and so on, until
# a run is over before its turn comes. What must hold: a failure is one line and an exit code, the old index stays to the
# byte and no temporary file; a killed process leaves the old or the new index. Needs strace.
. "$SOURCE_DIR/tests/script_helpers.sh"
strace -qq -o trace -e trace=write true 2>/dev/null || { echo "strace cannot be used here"; exit 77; }
if grep -qs '^NEARFIELD_SANITIZE:.*thread' "${BUILD_DIR:-.}/CMakeCache.txt"; then
    echo "ThreadSanitizer makes system calls of its own" # which would be the ones that fail
    exit 77
fi
export ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0" # it looks for leaks by ptrace itself
export LSAN_OPTIONS=detect_leaks=0

run 0 generate mixture -o data.npy --rows 3000 --dims 64 --clusters 20 -q
options=(--lists 30 --bits 9 --iterations 0 --train-rows 16 --recall-rows 0 --keep-vectors --threads 1 -q)
run 0 build data.npy -o one.nf "${options[@]}" --seed 1
run 0 build data.npy -o two.nf "${options[@]}" --seed 2
mkdir place

# injected CALL WHAT NUMBER: a build over the old index; true while the fault came. Exit code in $code.
injected() {
    rm -rf place
    mkdir place
    cp one.nf place/index.nf
    ( # of its own, so that the shell's word about a killed process goes nowhere
        strace -f -qq -o trace -e trace="$1" -e inject="$1:$2:when=$3" \
            "$NEARFIELD" build data.npy -o place/index.nf "${options[@]}" --seed 2 >out 2>err
        exit $?
    ) 2>/dev/null
    code=$?
    grep -qE 'INJECTED|killed by SIGKILL' trace
}

# A failed call. MUST: the build fails (else it may go on without what failed).
fails() { # CALL ERROR MUST
    local number=1 failures_seen=0
    while injected "$1" "error=$2" $number; do
        if [ $code = 0 ]; then
            [ "$3" = may ] || fail "$1 number $number failed with $2, but the build did not"
            same place/index.nf two.nf
        elif [ $code = 127 ]; then # the loader's call: the command has not begun
            same place/index.nf one.nf
        else
            failures_seen=$((failures_seen + 1))
            one_line "index.nf: cannot "
            is $code 1 "exit code after $2 of $1 number $number"
            if grep -q "sync its folder" err; then # after the rename
                same place/index.nf two.nf
            else
                same place/index.nf one.nf
            fi
        fi
        is "$(ls -A place)" index.nf "the folder after $2 of $1 number $number"
        number=$((number + 1))
        [ $number -lt 200 ] || { fail "$1: never without a fault"; break; }
    done
    is $code 0 "exit code of a build without a fault"
    same place/index.nf two.nf
    [ $number -gt 1 ] || fail "$1 was never called"
    echo "$1 $2: $((number - 1)) calls, $failures_seen failed builds"
}

fails write ENOSPC must
fails write EINTR may
fails fallocate ENOSPC must
fails fallocate EOPNOTSUPP may
fails fsync EIO must
fails rename EXDEV must
fails close EIO may # of files that were only read: nothing is lost

# Ended by a signal at each call.
for call in openat write fallocate fsync rename close; do
    number=1
    while injected $call signal=KILL $number; do
        cmp -s place/index.nf one.nf || cmp -s place/index.nf two.nf || fail "killed at $call $number: a broken index"
        number=$((number + 1))
        [ $number -lt 200 ] || { fail "$call: never without a signal"; break; }
    done
    is $code 0 "exit code of a build that is not killed"
    echo "$call KILL: $((number - 1)) calls"
done
finish
