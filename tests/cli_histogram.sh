#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# nearfield join at several radii: points whose pairs are worked out by hand.
. "$SOURCE_DIR/tests/script_helpers.sh"

# Distances: 0-1 5, 0-2 10, 0-3 0, 1-2 5, 1-3 5, 2-3 10. Ordered pairs: within 0 2, 4.9 2, 5 8, 10 12.
printf '0,0\n3,4\n6,8\n0,0\n' >p.csv

run 0 join p.csv --histogram 0,4.9,5,5,10 -q --format csv -o -
printf '0,2\n4.9,2\n5,8\n5,8\n10,12\n' >expected
same out expected
run 0 join p.csv --histogram 0,5,10,inf --strict --self --json
is "$(json radius)" null "the largest radius"
says out '{"radius": 0, "pairs": 0, "selectivity": 0}'
says out '{"radius": 5, "pairs": 6, "selectivity": 0.5}'
says out '{"radius": 10, "pairs": 12, "selectivity": 2}'
says out '{"radius": null, "pairs": 16, "selectivity": 3}'
run 0 join p.csv p.csv --histogram 5 -q --format csv -o -
printf '5,12\n' >expected
same out expected
run 0 join p.csv --histogram 0,5
says out neighbours
run 0 join p.csv --histogram 0,5 --half -q -o h.npy
[ -s h.npy ] || fail "no h.npy"

# Rings part the pairs.
run 0 join p.csv --radius 5:10 -q --format csv -o -
cp out ring
run 0 join p.csv --radius 10 --inner-radius 5 -q --format csv -o -
cmp -s out ring || fail "--radius 5:10 is not --radius 10 --inner-radius 5"
printf '0,2,10\n2,0,10\n2,3,10\n3,2,10\n' >expected
same out expected
run 0 join p.csv --radius 5 --inner-radius 0 --half --strict -q --format csv -o -
printf '0,3,0\n' >expected
same out expected

# Counts that stop.
run 0 join p.csv --radius 5 --stop-at 2 -q --counts --format txt -o -
printf '2\n2\n1\n2\n' >expected
same out expected

# A radius per query.
printf '0\n5\n10\n4.9\n' >r.csv
run 0 join p.csv --radii r.csv -q --format csv -o -
printf '0,3,0\n1,0,5\n1,2,5\n1,3,5\n2,0,10\n2,1,5\n2,3,10\n3,0,0\n' >expected
same out expected
printf '5\n10\n' >r2.csv
run 0 join p.csv p.csv --query-rows 1:3 --radii r2.csv -q --format csv -o - --distances none
printf '1,0\n1,1\n1,2\n1,3\n2,0\n2,1\n2,2\n2,3\n' >expected
same out expected

# Refused.
run 2 join p.csv --histogram 5,1
one_line "must ascend"
run 2 join p.csv --histogram 1,x
one_line "R1,R2"
run 2 join p.csv --radius 1 --histogram 1
one_line "one of --radius, --radii and --histogram"
run 2 join p.csv --radii r.csv --half
one_line "--half does not go with --radii"
run 2 join p.csv --radius 1 --stop-at 2 -q --format csv -o -
one_line "stop_at"
run 2 join p.csv --radius x:2
run 2 join p.csv --radius 1:
run 2 join p.csv --radius 1 --inner-radius 2
one_line "above the radius"
"$NEARFIELD" join p.csv --radii r2.csv >out 2>err && fail "too few radii are taken"
one_line "2 radii, but there are 4 queries"
finish
