#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# --selectivity of join and dbscan: with all rows as the sample, the radii and numbers of pairs that SciPy's sorted distances
# of letters give; a sample's estimate beside the true number.
. "$SOURCE_DIR/tests/script_helpers.sh"
letters="$data/tabular/letter.csv"

whole() { # SELECTIVITY RADIUS PAIRS
    run 0 join "$letters" --rows 0:2000 --selectivity "$1" --sample-rows 2000 --json
    is "$(json radius)/$(json pairs)" "$2/$3" "radius and pairs for selectivity $1"
    is "$(json wanted_selectivity)/$(json standard_error)/$(json sampled_rows)" "$1/0/2000" "what was asked for"
    is "$(json estimated_selectivity)" "$(json selectivity)" "the estimate of the whole"
}
whole 1 2.6457513110645907 2388
whole 5 4 11322
whole 50 6.324555320336759 102130

# A sample: the same seed says the same, and the true number is within four standard errors.
run 0 join "$letters" --selectivity 20 --seed 3 --json
first=$(json radius)
awk -v t="$(json selectivity)" -v e="$(json estimated_selectivity)" -v s="$(json standard_error)" \
    'BEGIN { exit !(s > 0 && t > e - 4 * s && t < e + 4 * s) }' || fail "estimate: $(cat out)"
run 0 join "$letters" --selectivity 20 --seed 3 --threads 3
says out "radius      $first"
says out "for selectivity 20: estimated "
says out "neighbours from 1,000 sampled rows"

# Queries, cosine, clusters.
run 0 join "$letters" "$letters" --rows 0:500 --query-rows 100:150 --selectivity 1 --json
is "$(json radius)" 0 "radius: each query is among the rows"
run 0 join "$letters" --rows 0:500 --metric cosine --selectivity 2 --sample-rows 500
says out "similarity 0.9"
run 0 dbscan "$letters" --rows 0:2000 --selectivity 5 --sample-rows 2000 --json
is "$(json radius)/$(json pairs)" 4/5661 "radius and pairs of dbscan"

# Mistakes.
run 2 join "$letters" --selectivity 5 --radius 1
one_line "--selectivity and --radius exclude each other"
run 2 join "$letters" --metric cosine --selectivity 5 --similarity 0.5
one_line "--selectivity and --similarity exclude each other"
run 2 join "$letters" --rows 0:10 --selectivity 10
one_line "selectivity is 10, more than 0 and at most 9"
run 2 join "$letters" --selectivity 0
run 2 join "$letters" --selectivity 5 --sample-rows 0
finish
