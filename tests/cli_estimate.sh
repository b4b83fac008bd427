#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# nearfield join --estimate beside the join itself: exact from all rows, else within the interval; no file is made.
. "$SOURCE_DIR/tests/script_helpers.sh"
letters="$data/tabular/letter.csv"

# All rows: pairs, and the length of files.
run 0 join "$letters" --rows 0:3000 --radius 5 --sample-rows 3000 --estimate --json -o e.npz
is "$(json estimate)/$(json pairs_low)/$(json pairs_high)" "true/$(json pairs)/$(json pairs)" "an interval of no width"
[ ! -e e.npz ] || fail "--estimate made a file"
pairs=$(json pairs) npz=$(json npz_bytes) npy=$(json npy_bytes)
for key in $(sed -n '/^### join --estimate/,/^### join$/ s/^| `\(.*\)` |.*/\1/p' "$SOURCE_DIR/docs/command.md" | tr -d ,); do
    grep -q "\"$key\": " out || fail "docs/command.md names a key that join --estimate --json lacks: $key"
done
run 0 join "$letters" --rows 0:3000 --radius 5 --json -o a.npy
is "$(json pairs)" "$pairs" "pairs"
is "$(wc -c <a.npy | tr -d ' ')" "$npy" "bytes of .npy"
"$NEARFIELD" convert "$letters" part.npy --rows 0:3000 -q
run 0 join part.npy --radius 5 -q -o a.npz
is "$(wc -c <a.npz | tr -d ' ')" "$npz" "bytes of .npz"

# A sample.
for what in "--radius 4" "--metric cosine --similarity 0.97 --half" "--selectivity 30 --self"; do
    run 0 join "$letters" $what --estimate --seed 5 --json
    low=$(json pairs_low) high=$(json pairs_high)
    run 0 join "$letters" $what --seed 5 --json
    awk -v l="$low" -v h="$high" -v t="$(json pairs)" 'BEGIN { exit !(l < t && t < h) }' ||
        fail "$what: $(json pairs) is not in $low to $high"
done

# The summary.
run 0 join "$letters" "$letters" --query-rows 0:100 --radius 4 --estimate -o x.csv
says out "neighbours per query, from 100 sampled"
says out "result      not made (--estimate)"
[ ! -e x.csv ] || fail "--estimate made a file"

run 3 join missing.npy --radius 1 --estimate
run 2 join "$letters" --estimate
finish
