#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# nearfield generate: the same bytes for any thread count, options that arrive, formats, the summary.
. "$SOURCE_DIR/tests/script_helpers.sh"

# The first values of seed 1, as another program computes them from the description of the generator.
run 0 generate uniform -o - --format csv --rows 2 --dims 2 --dtype f64 -q
awk -F, 'NR == 1 && ($1 < 0.80063809 || $1 > 0.80063810 || $2 < 0.13685420 || $2 > 0.13685422) { exit 1 }' out ||
    fail "first row of seed 1: $(head -1 out)"

for kind in uniform exponential mixture lattice; do
    run 0 generate $kind -o one.npy --rows 5000 --dims 9 --threads 1
    says out "one.npy: 5,000 rows of 9 values, f32"
    run 0 generate $kind -o three.npy --rows 5000 --dims 9 --threads 3 --json
    same one.npy three.npy
    is "$(json rows)/$(json dims)/$(json dtype)/$(json kind)" "5000/9/\"f32\"/\"$kind\"" "object of $kind"
done

run 0 generate uniform -o a.npy --seed 1 -q
run 0 generate uniform -o b.npy --seed 2 -q
! cmp -s a.npy b.npy || fail "seeds 1 and 2 give the same"
run 0 generate uniform -o c.npy --rows 500 -q
is "$(tail -c 6000 c.npy | cksum)" "$(tail -c 12000 a.npy | head -c 6000 | cksum)" "the first 500 of 1000 rows"

# A lattice's pairs: 6 neighbours at distance 1 inside, by the formula 2 d (s - 1) s^(d - 1).
run 0 generate lattice -o grid.u8bin --rows 1000 --dims 3 --dtype u8 -q
run 0 join grid.u8bin --radius 1 --json
is "$(json pairs)" $((2 * 3 * 9 * 10 * 10)) "pairs of a lattice"
run 0 generate lattice -o grid.csv --rows 6 --dims 2 --side 3 -q
printf '0,0\n0,1\n0,2\n1,0\n1,1\n1,2\n' >expected
same grid.csv expected

# Parameters arrive.
run 0 generate exponential -o - --format csv --rows 20000 --dims 1 --rate 2 -q
awk '{ s += $1 } END { m = s / NR; exit !(m > 0.48 && m < 0.52) }' out || fail "mean of the exponential with rate 2"
run 0 generate mixture -o - --format csv --rows 100 --dims 4 --clusters 3 --spread 0 -q
is "$(sort -u out | wc -l | tr -d ' ')" 3 "different rows of 3 clusters without spread"

run 0 generate uniform -o none.npy --rows 0 -q
run 0 info none.npy --json
is "$(json rows)/$(json dims)" 0/3 "no rows"
run 2 generate uniform -o x.npy --dtype i8
one_line "dtype is i8, allowed are f32, f64 and u8"
run 2 generate exponential -o x.npy --rate 0
one_line "rate is 0"
run 2 generate lattice -o x.npy --rows 10 --side 2
one_line "rows is 10"
[ ! -e x.npy ] || fail "x.npy was made"

finish
