#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Saving an index: killed at any moment, or without room for the file, the index of that name is the complete old or the
# complete new one; without room nothing else stays in the folder. (cli_ivf_inject.sh fails single system calls.)
. "$SOURCE_DIR/tests/script_helpers.sh"

run 0 generate mixture -o data.npy --rows 3000 --dims 64 --clusters 20 -q
options=(--lists 30 --bits 9 --iterations 1 --recall-rows 0 --keep-vectors --threads 1 -q)
run 0 build data.npy -o one.nf "${options[@]}" --seed 1
begin=$(date +%s%N)
run 0 build data.npy -o two.nf "${options[@]}" --seed 2
took=$(($(date +%s%N) - begin))
mkdir place

# whole: the index is one of the two, to the byte.
whole() {
    cmp -s place/index.nf one.nf || cmp -s place/index.nf two.nf || fail "$1: the index is neither the old nor the new one"
}

# Killed 20 times, spread over the time of a build and a bit more; what a killed process leaves may only be temporary.
cp one.nf place/index.nf
ended=0
for round in $(seq 1 20); do
    "$NEARFIELD" build data.npy -o place/index.nf "${options[@]}" --seed $((round % 2 + 1)) 2>/dev/null &
    process=$!
    sleep "$(awk -v took="$took" -v round="$round" -v part="$RANDOM" \
        'BEGIN { printf "%.4f", took / 1e9 * 1.3 * (round - 1 + part / 32768) / 20 }')"
    kill -KILL $process 2>/dev/null
    wait $process 2>/dev/null && ended=$((ended + 1))
    whole "round $round"
    for left in $(ls -A place); do
        case $left in
        index.nf) ;;
        .index.nf.*.tmp) rm -f "place/$left" ;;
        *) fail "round $round: $left is left" ;;
        esac
    done
done
[ "$ended" -lt 20 ] || fail "no build was killed"
run 0 verify place/index.nf

# Files may be so long and no longer (RLIMIT_FSIZE in KiB): the old index stays, and no temporary file.
bytes=$(wc -c <one.nf)
for limit in 0 1 100 $((bytes / 2048)) $((bytes / 1024 - 1)); do
    cp one.nf place/index.nf
    (
        trap '' XFSZ
        ulimit -f "$limit"
        exec "$NEARFIELD" build data.npy -o place/index.nf "${options[@]}" --seed 2
    ) 2>&1 >/dev/null | cat >"$work/err" # cat has no limit of its own
    is "${PIPESTATUS[0]}" 1 "exit code with files of at most $limit KiB"
    one_line "place/index.nf: cannot write"
    same place/index.nf one.nf
    is "$(ls -A place)" index.nf "the folder with files of at most $limit KiB"
done
(
    ulimit -f $((bytes / 1024 + 1))
    exec "$NEARFIELD" build data.npy -o place/index.nf "${options[@]}" --seed 2
) || fail "a build with room enough failed"
same place/index.nf two.nf
finish
