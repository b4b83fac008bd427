#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# nearfield convert and info: round trips through every format, ranges and columns, refusals of loss.
. "$SOURCE_DIR/tests/script_helpers.sh"

# Through a format and back to text gives the text again. Values: any of the format's type.
round_trip() {
    local suffix=$1 first=$2
    run 0 convert "$first" "there.$suffix" -q
    run 0 convert "there.$suffix" back.csv -q
    same "$first" back.csv
}
printf '0,255,7\n1,2,3\n' >bytes.csv
printf -- '-128,127,7\n1,2,3\n' >signed.csv
printf -- '0.5,-0.25,7\n1,2,3\n' >halves.csv
printf -- '0.10000000149011612,-1.0000000150474662e30,7\n1,2,3\n' >single.csv
printf -- '0.1,-1e300,7\n1,2,3.0000000000000004\n' >double.csv
printf -- '-100000,2147483647,7\n1,2,3\n' >wide.csv
for suffix in npy fvecs bvecs ivecs fbin u8bin f16bin ibin csv tsv txt; do round_trip $suffix bytes.csv; done
for suffix in npy fvecs ivecs fbin i8bin ibin; do round_trip $suffix signed.csv; done
for suffix in npy fvecs fbin f16bin; do round_trip $suffix halves.csv; done
for suffix in npy fvecs fbin; do round_trip $suffix single.csv; done
for suffix in npy tsv; do round_trip $suffix double.csv; done
for suffix in npy ivecs ibin; do round_trip $suffix wide.csv; done

run 0 convert bytes.csv there.raw -q
run 0 convert there.raw back.csv --dtype u8 --dims 3 -q
same bytes.csv back.csv

# Types: small integers of text are stored narrow.
for pair in bytes.csv:u8 signed.csv:i8 single.csv:f32 double.csv:f64; do
    run 0 info "${pair%:*}" --json
    is "$(json dtype)/$(json rows)/$(json dims)" "\"${pair#*:}\"/2/3" "info of ${pair%:*}"
done

# What another type cannot hold is refused with its place.
run 3 convert double.csv x.fvecs
one_line "row"
run 3 convert halves.csv x.u8bin
one_line "row"
run 3 convert signed.csv x.bvecs
one_line "row"
[ ! -e x.fvecs ] && [ ! -e x.u8bin ] && [ ! -e x.bvecs ] || fail "a refused file was made"

# Rows and columns.
printf 'a,b,c\n1,2,3\n4,5,6\n7,8,9\n' >names.csv
run 0 convert names.csv - --format csv --rows 1:3 --columns c,a -q
printf '6,4\n9,7\n' >expected
printf '4,6\n7,9\n' >expected_sorted
cmp -s out expected || cmp -s out expected_sorted || fail "columns c,a of rows 1:3: $(cat out)"
run 0 info names.csv --json
is "$(json header_lines)/$(json rows)" 1/3 "header line"

# info in words, and sizes.
run 0 info "$data/tabular/letter.csv"
says out "rows    20,000"
says out "dtype   u8"
run 0 info "$data/cities/cities_xyz_km.npy" --json
is "$(json rows)/$(json dims)/$(json dtype)/$(json bytes)" '135233/3/"f32"/1622924' "info of cities"
is "$(json format)" '"npy"' "format of cities"

# The summary goes to stderr when the data go to standard output.
run 0 convert bytes.csv - --format csv
same out bytes.csv
says err "standard output: 2 rows of 3 values, u8"

finish
