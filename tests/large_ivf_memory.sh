#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Memory that an index takes, on 331,479 word vectors (glove-100).
#   build with --memory 64M: resident memory, less the pages of the mapped input, at most 1.3 x index + 64 MiB; the file
#   that more memory and other numbers of threads give. All pages of the input count as mapped: a build reads each.
#   search: at most 1.1 x file + 64 MB, queries included.
#   a file that claims a terabyte, and has it (as a hole): refused at once, with little memory.
source "$(dirname "${BASH_SOURCE[0]}")/script_helpers.sh"
[ -n "${NEARFIELD_DATA:-}" ] || { echo "NEARFIELD_DATA is not set"; exit 77; }
launch="$SOURCE_DIR/bench/bench_launch.py"
base="$NEARFIELD_DATA/glove-100/base.npy"

# measured CODE ARGUMENTS...: runs the command; its peak of resident memory (bytes) to $peak.
measured() {
    local expected=$1 code
    shift
    python3 "$launch" usage "$NEARFIELD" "$@" >out 2>err || fail "nearfield $*: cannot be run"
    peak=$(sed -E 's/.*"peak": ([0-9]+).*/\1/' usage)
    code=$(sed -E 's/.*"exit": (-?[0-9]+).*/\1/' usage)
    is "$code" "$expected" "exit code of nearfield $*; $(head -c 300 err)"
}

at_most() { # WHAT VALUE LIMIT
    echo "$1: $2, at most $3"
    [ "$2" -le "$3" ] || fail "$1 is $2, at most $3 are allowed"
}

options=(--lists 576 --iterations 2 --train-rows 64 -q)
input=$(wc -c <"$base")
measured 0 build "$base" -o small.nf "${options[@]}" --memory 64M
bytes=$(wc -c <small.nf)
at_most "build with --memory 64M, without the mapped input" $((peak - input)) $((bytes * 13 / 10 + 67108864))
measured 0 build "$base" -o other.nf "${options[@]}" --memory 1G
at_most "build with --memory 1G, without the mapped input" $((peak - input)) $((bytes * 13 / 10 + 1073741824))
same small.nf other.nf
measured 0 build "$base" -o other.nf "${options[@]}" --threads 1 --memory 64M
same small.nf other.nf
measured 0 build "$base" -o other.nf "${options[@]}" --threads 2
same small.nf other.nf

for way in "" --mmap; do
    measured 0 search small.nf "$NEARFIELD_DATA/glove-100/query.npy" -k 10 --probes 32 $way -q -o found.npz
    at_most "search $way" "$peak" $((bytes * 11 / 10 + 64000000))
done

# The header of an index with the length of the file changed, and the file made that long; then the length of a section
# too, with everything in agreement that can be without the checksums (which need XXH3).
number() { # VALUE: eight bytes, little-endian
    local i value=$1
    for i in 0 1 2 3 4 5 6 7; do printf "\\x$(printf %02x $((value >> (8 * i) & 255)))"; done
}
terabyte=1099511627776
cp small.nf huge.nf
number $terabyte | dd of=huge.nf bs=1 seek=24 conv=notrunc 2>/dev/null
truncate -s $terabyte huge.nf || { echo "no sparse files here"; finish; }
for way in "" --mmap "--mmap --verify structure"; do
    for section in none 5; do
        [ $section = none ] ||
            number $((terabyte - bytes)) | dd of=huge.nf bs=1 seek=$((64 + 32 * section + 16)) conv=notrunc 2>/dev/null
        measured 4 search huge.nf "$NEARFIELD_DATA/glove-100/query.npy" -k 10 $way -o found.npz
        one_line "huge.nf: "
        at_most "refusal of a terabyte, section $section $way" "$peak" 32000000
    done
done
measured 4 verify huge.nf
at_most "verify of a terabyte" "$peak" 32000000
finish
