#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What README.md shows works: its C program compiles without warnings and prints what the text says, its commands run.
. "$SOURCE_DIR/tests/script_helpers.sh"
: "${BUILD_DIR:?root of the build tree}"
readme=$SOURCE_DIR/README.md

# block LANGUAGE: the first fenced block of that language.
block() {
    sed -n "/^\`\`\`$1\$/,/^\`\`\`\$/p" "$readme" | sed '1d;/^```$/,$d'
}

# cached NAME: a value of the build's CMake cache.
cached() {
    sed -n "s/^$1:[A-Z]*=//p" "$BUILD_DIR/CMakeCache.txt"
}

block c >program.c
[ -s program.c ] || fail "README.md has no C program"
flags=(-std=c17 -Wall -Wextra -Wpedantic -Werror)
sanitize=$(cached NEARFIELD_SANITIZE)
[ -z "$sanitize" ] || flags+=("-fsanitize=$sanitize")
if "$(cached CMAKE_C_COMPILER)" "${flags[@]}" -I"$SOURCE_DIR/include" program.c -o program \
    -L"$BUILD_DIR" -Wl,-rpath,"$BUILD_DIR" -lnearfield; then
    ./program >out 2>err || fail "the C program of README.md: exit code $?; $(head -c 300 err)"
    printf '0 1 5\n1 0 5\n1 2 5\n2 1 5\n' >expected # worked out by hand: each step is (3, 4)
    same out expected
else
    fail "the C program of README.md does not compile"
fi
while read -r line; do
    grep -qF -- "\`$line\`" "$readme" || fail "README.md does not say that the program prints '$line'"
done <expected

# Its commands, as they stand, on the data that come with the source.
ln -s "$data" data
block sh >commands
[ "$(lines commands)" -ge 3 ] || fail "README.md has no commands"
while read -r name arguments; do
    is "$name" nearfield "the command that README.md calls"
    # shellcheck disable=SC2086 # the words of a line
    run 0 $arguments
done <commands
# SciPy finds 356,474 ordered pairs of letters within 3 (data/README.md, less self pairs): half of them with --half.
is "$(wc -c <pairs.npy)" $((128 + 356474 * 4)) "bytes of pairs.npy"
is "$(wc -c <counts.npy)" $((128 + 135233 * 8)) "bytes of counts.npy"
grep -q '^4,847,1$' near.csv || fail "near.csv lacks the neighbour 847 of row 4, at distance 1"
[ -s pairs.npz ] || fail "no pairs.npz"

finish
