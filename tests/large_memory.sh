#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Memory that a join takes, and the selectivity of the paper's synthetic sets (5,000,000 x 3, section V of RT-HiSS).
#   with --memory 512M, half a billion pairs: resident memory below 600 MB, and the file that more memory gives;
#   without a limit: 2 x data + 32 bytes a row + results + 128 MB.
source "$(dirname "${BASH_SOURCE[0]}")/script_helpers.sh"
launch="$SOURCE_DIR/bench/bench_launch.py"

# measured ARGUMENTS...: runs the command, its JSON to ./json, its peak of resident memory (bytes) to $peak.
measured() {
    python3 "$launch" usage "$NEARFIELD" "$@" --json=json >/dev/null 2>err || fail "nearfield $*: $(head -c 300 err)"
    peak=$(sed -E 's/.*"peak": ([0-9]+).*/\1/' usage)
}

# number KEY: a number of ./json.
number() {
    sed -E "s/.*\"$1\": ([-+0-9.e]+).*/\1/" json
}

at_most() { # WHAT VALUE LIMIT
    echo "$1: $2, at most $3"
    [ "$2" -le "$3" ] || fail "$1 is $2, at most $3 are allowed"
}

without_limit() { # FILE RADIUS BYTES_OF_DATA ROWS PAIRS
    measured join "$1" --radius "$2" --self -o result.npz
    [ "$(number pairs)" = "$5" ] || fail "$1: $(number pairs) pairs, $5 are right"
    at_most "peak of $1 at radius $2" "$peak" $((2 * $3 + 32 * $4 + 12 * $5 + 8 * $4 + 128000000))
    rm -f result.npz
}

room=$(df -k --output=avail . | tail -n 1)
[ "$room" -gt 16000000 ] || { echo "16 GB of disk are needed"; exit 77; }

measured join "$data/tabular/shuttle.csv" --radius 20 --self --memory 512M -o small.npz
at_most "peak with --memory 512M" "$peak" 600000000
[ "$(number pairs)" = 500009112 ] || fail "shuttle: $(number pairs) pairs"
measured join "$data/tabular/shuttle.csv" --radius 20 --self -o large.npz
at_most "peak of shuttle at radius 20" "$peak" $((2 * 58000 * 18 + 40 * 58000 + 12 * 500009112 + 128000000))
cmp -s small.npz large.npz || fail "the memory limit changed the result file"
rm -f small.npz large.npz

without_limit "$data/cities/cities_xyz_km.npy" 50 1622796 135233 16246283
if [ -n "${NEARFIELD_DATA:-}" ]; then
    without_limit "$NEARFIELD_DATA/sift-photos/base.u8bin" 160 36929408 288511 23200183
fi

# selectivity KIND RADIUS: mean number of neighbours, self not counted, within 2 % of the paper's 256.
selectivity() {
    run 0 generate "$1" --rows 5000000 --dims 3 --rate 40 --seed 1 -o set.npy
    measured join set.npy --radius "$2"
    echo "$1: selectivity $(number selectivity)"
    awk -v z="$(number selectivity)" 'BEGIN { exit !(z > 250.9 && z < 261.1) }' || fail "$1: selectivity $(number selectivity)"
    at_most "peak of $1" "$peak" $((2 * 60000000 + 40 * 5000000 + 128000000))
}
selectivity uniform 0.023206
selectivity exponential 0.001170
finish
