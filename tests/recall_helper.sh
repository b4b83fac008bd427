# SPDX-License-Identifier: Apache-2.0
# Recall against the tables in tests/regress: sourced by cli_recall.sh and large_recall.sh after script_helpers.sh.
# NEARFIELD_REGRESS_UPDATE=FILE appends what is measured to FILE in the form of the tables, instead of comparing.

# measure SET METRIC LISTS BASE QUERIES TRUTH BITS PROBES...: builds an index and compares recall@10 for each number of
# probes with the table of the set. A recall may be lower than the table's by TOLERANCE; one that is higher by more says that
# the table is old.
measure() {
    local set=$1 metric=$2 lists=$3 base=$4 queries=$5 truth=$6 bits=$7 probes recall expected
    shift 7
    run 0 build "$base" -o index.nf --lists "$lists" --bits "$bits" --metric "$metric" --recall-rows 0 -q
    for probes in "$@"; do
        run 0 search index.nf "$queries" -k 10 --probes "$probes" --truth "$truth" --json
        recall=$(json recall)
        if [ -n "${NEARFIELD_REGRESS_UPDATE:-}" ]; then
            printf '%s\t%s\t%s\t%s\t%.4f\n' "$metric" "$lists" "$bits" "$probes" "$recall" >>"$NEARFIELD_REGRESS_UPDATE"
            continue
        fi
        expected=$(awk -v key="$metric $lists $bits $probes" '$1 " " $2 " " $3 " " $4 == key { print $5 }' \
            "$SOURCE_DIR/tests/regress/$set.tsv")
        [ -n "$expected" ] || fail "$set.tsv has no line for $metric, $lists lists, $bits bits, $probes probes"
        awk -v found="$recall" -v expected="${expected:-9}" -v tolerance="$TOLERANCE" \
            'BEGIN { exit !(found >= expected - tolerance && found <= expected + tolerance) }' ||
            fail "$set, $metric, $bits bits, $probes probes: recall $recall, $expected +- $TOLERANCE is expected"
    done
}
