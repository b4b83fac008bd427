#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# nearfield dbscan: clusters worked out by hand, and the numbers of clusters and noise that scikit-learn 1.9.1 finds among letters,
# measurements of a shuttle, and cities.
. "$SOURCE_DIR/tests/script_helpers.sh"

# Two clusters that share a border row (at 2, equally near to both), and one row alone.
printf '9\n4\n3\n3.5\n2\n1\n0.5\n0\n' >p.csv
run 0 dbscan p.csv --radius 1 --min-samples 4 -q --format csv -o labels.csv
printf -- '-1\n0\n0\n0\n0\n1\n1\n1\n' >expected
same labels.csv expected
run 0 dbscan p.csv --radius 1 --min-samples 4 -q --format csv -o -
same out expected
run 0 dbscan p.csv --radius 1 --min-samples 1 -q --format csv -o - # connected components
printf '0\n1\n1\n1\n1\n1\n1\n1\n' >expected
same out expected
run 0 dbscan p.csv --radius 1 --min-samples 1 --strict -q --format csv -o -
printf '0\n1\n1\n1\n2\n3\n3\n3\n' >expected
same out expected

# The summary, the object, an array of one dimension.
run 0 dbscan p.csv --radius 1 --min-samples 4 -o labels.npy
says out "clusters    2"
says out "rows        2 core, 5 border, 1 noise"
says out "result      labels.npy"
grep -qaF "'shape': (8,)" labels.npy || fail "labels.npy has not one dimension"
run 0 dbscan p.csv --radius 1 --min-samples 4 --json
is "$(json clusters)/$(json core)/$(json border)/$(json noise)/$(json rows)" 2/2/5/1/8 "the object"

# Components: single linkage.
run 0 components p.csv --radius 1 -q --format csv -o -
printf '0\n1\n1\n1\n1\n1\n1\n1\n' >expected
same out expected
run 0 components p.csv --radius 1 --strict -o labels.npy
says out "components  4; the largest of 3 rows, 2 of one row"
run 0 components p.csv --radius 1 --json
is "$(json components)/$(json largest)/$(json singletons)/$(json pairs)" 2/7/1/8 "the object of components"

# The same of a stored self-join, and what is no such graph.
run 0 dbscan p.csv --radius 1 --min-samples 4 -q -o labels.npy
run 0 join p.csv --radius 2 -q -o p.npz
run 0 dbscan p.npz --radius 1 --min-samples 4 -q -o other.npy
same other.npy labels.npy
run 0 components p.csv --radius 1 --strict -q -o labels.npy
run 0 components p.npz --radius 1 --strict -q -o other.npy
same other.npy labels.npy
run 0 components p.npz --radius 1 --json
is "$(json components)/$(json largest)/$(json singletons)/$(json rows)" 2/7/1/8 "the object of a graph's components"
run 0 join "$data/tabular/shuttle.csv" --radius 4 -q -o shuttle.npz
run 0 dbscan shuttle.npz --radius 4 --json
is "$(json clusters)/$(json noise)" 145/2548 "clusters and noise of a stored join"
run 0 join p.csv --radius 1 --half -q -o half.npz
run 3 dbscan half.npz --radius 1
one_line "DBSCAN needs both"
run 0 components half.npz --radius 1 -q --format csv -o -
printf '0\n1\n1\n1\n1\n1\n1\n1\n' >expected
same out expected
run 2 components p.npz --radius 1 --rows 0:3
run 3 dbscan missing.npz --radius 1
printf 'PK' >broken.npz
run 3 dbscan broken.npz --radius 1
one_line "broken.npz"
run 0 info p.npz
says out "format  npz (compressed sparse rows)"
run 0 info p.npz --json
is "$(json rows)/$(json columns)/$(json pairs)/$(json dtype)" '8/8/26/"f64"' "info of a graph"

run 0 join p.csv --radius 2 -q -o p.bin
run 0 info p.bin
says out "format  bin (big-ann range truth, squared distances)"
run 0 info p.bin --json
is "$(json rows)/$(json pairs)/$(json dtype)" '8/26/"f32"' "info of a range truth"

# scikit-learn's numbers.
count() { # FILE RADIUS MIN_SAMPLES CLUSTERS NOISE
    run 0 dbscan "$data/$1" --radius "$2" --min-samples "$3" --json
    is "$(json clusters)/$(json noise)" "$4/$5" "clusters and noise of $1 with $2 and $3"
}
count tabular/shuttle.csv 4 5 145 2548
count tabular/shuttle.csv 8 50 8 2465
count tabular/letter.csv 3 5 152 2597
count tabular/letter.csv 5 10 1 56
count cities/cities_xyz_km.npy 15 5 1553 39988
count cities/cities_xyz_km.npy 50 100 64 62815
# By cosine.
run 0 dbscan "$data/tabular/letter.csv" --rows 0:3000 --metric cosine --similarity 0.995 --json
is "$(json clusters)/$(json noise)/$(json similarity)" 92/2138/0.995 "clusters and noise of letters by cosine"
run 0 dbscan "$data/tabular/letter.csv" --rows 0:3000 --metric cosine --radius 0.005 --json
is "$(json clusters)/$(json noise)/$(json radius)" 92/2138/0.0050000000000000001 "the same by cosine distance"
run 2 dbscan p.csv --metric cosine
one_line "dbscan --metric cosine needs --similarity T, --radius R or --selectivity Z"
# Mistakes.
run 2 dbscan p.csv
one_line "dbscan needs --radius R or --selectivity Z"
run 2 components p.csv
one_line "components needs --radius R"
run 2 dbscan p.csv --radius 1 --min-samples 0
run 2 dbscan p.csv --radius -1
run 3 dbscan missing.csv --radius 1
finish
