#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs fuzz targets: run.sh BINARIES CORPUS OUT SECONDS CORES [TARGET...].
# Each target gets SECONDS on its share of CORES (more cores than targets: some run several times at once; fewer: in
# turn). OUT/corpus/<folder> gets what is new, OUT/found the inputs that failed, OUT/logs one log a run, whose last line
# is its processor time.
set -u
binaries=$(realpath "$1") corpus=$(realpath "$2") seconds=$4 cores=$5
mkdir -p "$3/logs" "$3/found" "$3/corpus"
out=$(realpath "$3")
shift 5
targets=("$@")
[ ${#targets[@]} -gt 0 ] || targets=(text npz npy ivf_open neighbours bin raw vecs params number)
export binaries corpus out seconds

run_slot() { # TARGET NUMBER
    local target=$1 most=4096 begin=$SECONDS left tries=0
    local folder=${target%_open} log
    case $target in
    ivf_open) most=32768 ;;
    npz | neighbours | npy) most=8192 ;;
    params) most=512 ;;
    number) most=2048 ;;
    esac
    local options=(-max_len=$most -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 -artifact_prefix="$out/found/$target-")
    [ ! -f "$corpus/$folder.dict" ] || options+=(-dict="$corpus/$folder.dict")
    mkdir -p "$out/corpus/$folder"
    # A run that ends early has found something; the next goes on.
    while left=$((seconds - (SECONDS - begin))); [ $left -gt 0 ] && [ $tries -lt 50 ]; do
        log=$out/logs/$target.$2.$(date +%s).$tries.log
        TIMEFORMAT='cpu seconds: %U %S'
        { time nice -n 19 "$binaries/fuzz_$target" "$out/corpus/$folder" "$corpus/$folder" -max_total_time=$left \
            "${options[@]}" >"$log" 2>&1; } 2>"$log.time"
        cat "$log.time" >>"$log"
        rm -f "$log.time"
        tries=$((tries + 1))
    done
}
export -f run_slot

slots=$cores
[ "$slots" -ge ${#targets[@]} ] || slots=${#targets[@]}
for ((i = 0; i < slots; i++)); do
    printf '%s %d\n' "${targets[i % ${#targets[@]}]}" "$i"
done | xargs -P "$cores" -L 1 bash -c 'run_slot "$0" "$1"'
ls -A "$out/found" | sed 's/^/found: /'
