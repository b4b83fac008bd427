#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# nearfield join --metric cosine: pairs worked out by hand, and the number of pairs that scikit-learn 1.9.1 finds among letters.
. "$SOURCE_DIR/tests/script_helpers.sh"

# Directions x, y, none, x, x + y; cosines are 0, 1/sqrt(2) and 1.
printf '3,0\n0,1\n0,0\n0.5,0\n2,2\n' >p.csv
run 0 join p.csv --metric cosine --similarity 0.9 -q --format csv -o -
printf '0,3,0\n3,0,0\n' >expected
same out expected
run 0 join p.csv --metric cosine --similarity 0.7 -q --distances none --format csv -o -
printf '0,3\n0,4\n1,4\n3,0\n3,4\n4,0\n4,1\n4,3\n' >expected
same out expected
run 0 join p.csv --metric cosine --radius 0.3 -q --distances none --half --format csv -o -
printf '0,3\n0,4\n1,4\n3,4\n' >expected
same out expected
run 0 join p.csv --metric cosine --similarity 0.9 -q --self --distances none --format csv -o -
printf '0,0\n0,3\n1,1\n3,0\n3,3\n4,4\n' >expected
same out expected
run 0 join p.csv --metric cosine --similarity 0.9 --self --counts -q --format csv -o -
printf '2\n1\n0\n2\n1\n' >expected
same out expected
run 0 join p.csv p.csv --metric cosine --similarity 0.9 --distances none -q --format csv -o -
printf '0,0\n0,3\n1,1\n3,0\n3,3\n4,4\n' >expected
same out expected

# 1 - 1/sqrt(2), to what binary32 rows allow.
run 0 join p.csv --metric cosine --similarity 0.5 -q --rows 1:5 --query-rows 0:1 p.csv --format csv -o -
awk -F, '$2 == 4 && $3 > 0.2928930 && $3 < 0.2928934 { found = 1 } END { exit !found }' out || fail "distance: $(cat out)"

# The summary and the object.
run 0 join p.csv --metric cosine --similarity 0.9 --self
says out "similarity  0.9"
says out "1 rows of zeros, which have no neighbours"
says out "pairs       6, self pairs too (0.4 neighbours per query on average)"
run 0 join p.csv --metric cosine --similarity 0.9 --json
is "$(json metric)/$(json similarity)/$(json radius)/$(json zero_rows)/$(json pairs)" \
    '"cosine"/0.90000000000000002/null/1/2' "the object"

# scikit-learn's number; through every writer and little memory it stays the same.
run 0 join "$data/tabular/letter.csv" --rows 0:3000 --metric cosine --similarity 0.995 --json
is "$(json pairs)" 5040 "pairs of letters"
{ printf '0,0,0\n'; tail -n +2 "$data/tabular/shuttle.csv" | head -1500 | cut -d, -f1-3; printf '0,0,0\n'; } >s.csv
for suffix in npz npy csv; do
    run 0 join s.csv --metric cosine --similarity 0.99 -q -o "large.$suffix"
    run 0 join s.csv --metric cosine --similarity 0.99 -q --threads 3 --memory 12M -o "small.$suffix"
    same "large.$suffix" "small.$suffix"
done

# Mistakes.
run 2 join p.csv --similarity 0.9
one_line "--similarity needs --metric cosine"
run 2 join p.csv --metric cosine
one_line "join --metric cosine needs --similarity T, --radius R or --selectivity Z"
run 2 join p.csv --metric cosine --similarity 0.9 --radius 0.1
one_line "exclude each other"
run 2 join p.csv --metric ip --radius 1
one_line "--metric ip has no radius"
run 2 join p.csv --metric cosine --similarity 1.5
run 2 join p.csv --metric cosine --similarity 0
one_line "more than 0 and at most 1"
run 2 join p.csv --metric cosine --radius 1
one_line "less than 1"
finish
