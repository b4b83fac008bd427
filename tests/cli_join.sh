#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# nearfield join: pairs of a few points worked out by hand, and numbers of pairs of real data known from other programs
# in binary64 arithmetic (data/README.md).
. "$SOURCE_DIR/tests/script_helpers.sh"

# Points on a line through the origin in steps of 5, and the origin again.
printf '0,0\n3,4\n6,8\n0,0\n' >p.csv

run 0 join p.csv --radius 5 -q --format csv -o -
printf '0,1,5\n0,3,0\n1,0,5\n1,2,5\n1,3,5\n2,1,5\n3,0,0\n3,1,5\n' >expected
same out expected
is "$(wc -c <err)" 0 "bytes on stderr with --quiet"

run 0 join p.csv --radius 5 -q --format csv -o - --strict
printf '0,3,0\n3,0,0\n' >expected
same out expected

run 0 join p.csv --radius 5 -q --format csv -o - --half --self --distances none
printf '0,0\n0,1\n0,3\n1,1\n1,2\n1,3\n2,2\n3,3\n' >expected
same out expected

run 0 join p.csv --radius 10 -q --format tsv -o - --sort distance
printf '0\t3\t0\n0\t1\t5\n0\t2\t10\n1\t0\t5\n1\t2\t5\n1\t3\t5\n' >expected
printf '2\t1\t5\n2\t0\t10\n2\t3\t10\n3\t0\t0\n3\t1\t5\n3\t2\t10\n' >>expected
same out expected

run 0 join p.csv --radius 0 -q --format csv -o -
printf '0,3,0\n3,0,0\n' >expected
same out expected

run 0 join p.csv --radius inf --json
is "$(json pairs)" 12 "pairs within any distance"
is "$(json radius)" null "an infinite radius in JSON"

run 0 join p.csv --radius 5 -q --counts --format txt -o -
printf '2\n3\n1\n2\n' >expected
same out expected

# Ids stay those of the file: with ranges of rows, and with rows left out.
run 0 join p.csv p.csv --rows 1:3 --query-rows 2: --radius 5 -q --format csv -o -
printf '2,1,5\n2,2,0\n3,1,5\n' >expected
same out expected
printf 'x,y\n0,0\nnan,1\n3,4\n5,inf\n0,1\n' >holes.csv
run 0 join holes.csv --radius 1 -q --format csv -o - --skip-invalid
printf '0,4,1\n4,0,1\n' >expected
same out expected
run 0 join holes.csv --radius 1 --skip-invalid
says out "left out  2 rows"
run 0 join holes.csv --radius 1 --columns y --rows 4: --format csv -o - -q
is "$(wc -c <out)" 0 "bytes for no pair"

# The summary.
run 0 join p.csv --radius 5
says out "pairs       8 (2 neighbours per query on average)"
says out "6 at exactly the radius"
run 0 join p.csv --radius 5 --half -o half.csv
says out "pairs       4, each once (2 neighbours per query on average)"
says out "result      half.csv"
run 0 join p.csv --radius 5 --format csv -o -
says err "pairs       8"

# The object: its keys, and numbers that follow from the points.
run 0 join p.csv --radius 5 --self --json
for key in command version engine isa rows queries dims seconds steps radius pairs selectivity candidates hits \
    compared pruned_share rechecked ties batches read_seconds write_seconds output refine why; do
    grep -q "\"$key\": " out || fail "--json lacks $key"
done
for key in $(sed -n '/^### join$/,/^### knn/ s/^| `\(.*\)` |.*/\1/p' "$SOURCE_DIR/docs/command.md" | tr -d ,); do
    [ "$key" = histogram ] && continue # cli_histogram.sh
    grep -q "\"$key\": " out || fail "docs/command.md names a key that --json lacks: $key"
done
is "$(lines out)" 1 "lines of the object"
is "$(json pairs)/$(json selectivity)/$(json ties)/$(json rows)/$(json dims)" 12/2/6/4/2 "numbers in the object"
run 0 join p.csv --radius 5 --format csv -o - --json=about.json -q
is "$(json pairs about.json)" 8 "pairs in the JSON file"
is "$(lines out)" 8 "lines of the result beside a JSON file"
run 0 join p.csv --radius 5 --strict --self --radius 0 --json
is "$(json pairs)/$(json selectivity)" 0/0 "strict with radius 0"

# No rows and one row.
printf '1,2\n' >one.csv
run 0 join one.csv --radius 5 --json
is "$(json pairs)" 0 "pairs of one row"
run 0 join p.csv --rows 2:2 --radius 5 --json
is "$(json pairs)/$(json rows)/$(json pruned_share)" 0/0/0 "no rows"

# Real data.
known() {
    run 0 join "$1" --radius "$2" --self --json
    is "$(json pairs)" "$3" "$1 within $2"
}
known "$data/tabular/letter.csv" 3 376474
known "$data/tabular/shuttle.csv" 4 3649898
known "$data/cities/cities_xyz_km.npy" 15 2257291

# One answer: methods, threads and a small memory give the same bytes. A part of the rows is enough for most.
letter="$data/tabular/letter.csv"
run 0 join "$letter" --rows 1000:4000 --radius 3 -q -o all.npy
for options in "--candidates none" "--candidates bvh" "--candidates boxes" "--refine fp64" "--refine fp32" \
    "--threads 1" "--threads 3" "--isa scalar"; do
    # shellcheck disable=SC2086
    run 0 join "$letter" --rows 1000:4000 --radius 3 -q -o other.npy $options
    same all.npy other.npy
done
run 0 join "$letter" --radius 3 -q -o all.npz
run 0 join "$letter" --radius 3 -o other.npz --memory 8M --threads 2 --json
same all.npz other.npz
[ "$(json batches)" -gt 1 ] || fail "8 MiB: one batch"

# Halves, queries and counts agree with the numbers above.
run 0 join "$letter" --radius 3 --half --json
is "$(json pairs)" $(((376474 - 20000) / 2)) "half of letter"
run 0 join "$letter" "$letter" --radius 3 --json
is "$(json pairs)/$(json queries)" 376474/20000 "letter against itself as queries"
run 0 join "$letter" --radius 3 -q --self --counts -o counts.txt
is "$(awk '{ s += $1 } END { print s }' counts.txt)" 376474 "sum of the counts"
run 0 join "$letter" --radius 3 -q --self --distances f32 -o pairs.csv
is "$(lines pairs.csv)" 376474 "lines of the pairs"

finish
