#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# nearfield build, search, verify and info of an index, on the letters: 19,000 rows of data, the last 1,000 as queries.
. "$SOURCE_DIR/tests/script_helpers.sh"
letter="$data/tabular/letter.csv"

run 0 convert "$letter" base.npy --rows 0:19000 -q
run 0 convert "$letter" queries.npy --rows 19000: -q
run 0 knn base.npy queries.npy -k 50 -q -o truth.npz

# build RESULT OPTIONS...
build() {
    local result=$1
    shift
    run 0 build base.npy -o "$result" -q "$@"
}

# at_least VALUE LEAST WHAT
at_least() {
    awk -v value="$1" -v least="$2" 'BEGIN { exit !(value >= least) }' || fail "$3: $1, at least $2 is expected"
}

# Build: the same bytes from any number of threads; its summary and its object.
build one.nf --bits 8 --lists 128 --threads 1
build two.nf --bits 8 --lists 128 --threads 2
same one.nf two.nf
run 0 build base.npy -o five.nf --lists 128
says out "128 lists of 19,000 rows, 16 values each"
says out "5 bits per dim, fast rotation"
says out "result      five.nf"
run 0 build base.npy -o two.nf --bits 8 --lists 128 --json
same one.nf two.nf
for key in $(sed -n '/^### build/,/^### search/ s/^| `\(.*\)` |.*/\1/p' "$SOURCE_DIR/docs/command.md" | tr -d ,); do
    grep -q "\"$key\": " out || fail "docs/command.md names a key that build --json lacks: $key"
done
is "$(json rows)/$(json dims)/$(json lists)/$(json bits)/$(json bytes)" "19000/16/128/8/$(wc -c <one.nf)" \
    "numbers in the object of build"
id=$(json file_id)

# Info and verify.
run 0 info one.nf
says out "metric l2, seed 1"
says out "recall@10   "
run 0 info one.nf --json
is "$(json file_id)/$(json format)/$(json bytes)" "$id/\"index\"/$(wc -c <one.nf)" "numbers in the object of info"
mv two.nf odd.npy # an index is known by how it begins
run 0 info odd.npy
says out "128 lists"
run 0 verify odd.npy
says out "sound"
run 0 info base.npy
says out "rows    19,000"

# Search of all lists with 8 bits: nearly exact.
run 0 search one.nf queries.npy -k 10 --probes 128 --truth truth.npz --json -o found.npz
for key in $(sed -n '/^### search/,$ s/^| `\(.*\)` |.*/\1/p' "$SOURCE_DIR/docs/command.md" | tr -d ,); do
    [ "$key" = sweep ] || grep -q "\"$key\": " out || fail "docs/command.md names a key that search --json lacks: $key"
done
at_least "$(json recall)" 0.97 "recall of all lists with 8 bits"
is "$(json scanned)/$(json probes)/$(json k)/$(json latency_ms)" 19000/128/10/null "numbers in the object of search"

# The same from any number of threads, any cut into calls, any order of the arguments' reading.
for options in "--threads 1" "--threads 3" "--batch 1" "--batch 7" "--mmap --verify structure" "--repeat 2"; do
    # shellcheck disable=SC2086
    run 0 search one.nf queries.npy -k 10 --probes 128 -q -o other.npz $options
    same found.npz other.npz
done
run 0 search one.nf "$letter" --query-rows 19000: -k 10 --probes 9999 --truth truth.npz -q -o other.npz
same found.npz other.npz

# Recall: against its own answer 1; by ids alone; row by row of the queries' file; what a truth without spare columns says.
run 0 search one.nf queries.npy -k 10 --probes 128 --truth found.npz --json
is "$(json recall)/$(json truth_cut)" 1/null "recall against its own answer"
run 0 search one.nf queries.npy -k 10 --probes 128 -q -o found.ivecs
run 0 search one.nf queries.npy -k 10 --probes 128 --truth found.ivecs --query-rows 10:20 --json
is "$(json recall)/$(json queries)" 1/10 "recall by ids of ten queries"
run 0 search one.nf queries.npy -k 10 --probes 128 --truth found.npz
says out "the truth holds k neighbours and no more"
run 0 search one.nf queries.npy -k 10 --probes 128 --batch 1 --repeat 3
says out "ms a call of 1 query"
says out "the median of the repetitions"

# A row that ties with the k-th counts, one that does not, does not; an id counts once.
printf '0\n1\n-1\n5\n' >line.csv
printf '0\n' >origin.csv
run 0 build line.csv -o line.nf --lists 1 --bits 9 --recall-rows 0 -q
run 0 search line.nf origin.csv -k 2 --probes 1 --format csv -o - -q
is "$(cut -d , -f 3 out | head -1)" 0 "the row nearest to the origin"
# query 0: ids 0 and (1 or 2), both at distance 1.
run 0 knn line.csv origin.csv -k 3 -q -o three.npz
run 0 search line.nf origin.csv -k 2 --probes 1 --truth three.npz --json
is "$(json recall)/$(json truth_cut)" 1/1 "recall with a tie at the end of the truth"
run 0 knn line.csv origin.csv -k 4 -q -o four.npz
run 0 search line.nf origin.csv -k 2 --probes 1 --truth four.npz --json
is "$(json recall)/$(json truth_cut)" 1/0 "recall with a tie inside the truth"

# A sweep.
run 0 search five.nf queries.npy -k 10 --probes 1,4,16,128 --truth truth.npz
says out "scanned"
run 0 search five.nf queries.npy -k 10 --probes 1,4,16,128 --truth truth.npz --json --batch 100
tr '{' '\n' <out | sed -n 's/.*"probes": \([0-9]*\), "recall": \([^,]*\),.*"scanned": \([^,]*\),.*/\1 \2 \3/p' >sweep
is "$(cut -d ' ' -f 1 sweep | tr '\n' ' ')" "1 4 16 128 " "probes of the sweep"
awk 'NR > 1 && ($3 <= scanned || $2 < recall - 0.002) { bad = 1 } { scanned = $3; recall = $2 } END { exit bad }' sweep ||
    fail "the sweep does not rise: $(cat sweep)"
is "$(grep -o '"p50"' out | wc -l)" 4 "latencies of the sweep"

# By recall: the table of the index chooses.
run 0 search one.nf queries.npy -k 10 --recall 0.9 --truth truth.npz --json
at_least "$(json recall)" 0.85 "recall where 0.9 was asked for"
[ "$(json probes)" -lt 128 ] || fail "all lists were probed for a recall of 0.9"
run 0 search line.nf origin.csv -k 2
says out "warning     the index holds no table of recall"
run 0 search one.nf queries.npy -k 2
grep -q warning out && fail "a warning with a table of recall"

# Filters: even rows only, or none of them.
seq 0 2 18998 >even.csv
run 0 search one.nf queries.npy -k 10 --probes 128 --filter even.csv -q --format csv -o -
is "$(lines out)/$(cut -d , -f 3 out | awk '$1 % 2' | wc -l)" 10000/0 "odd ids where even ones are allowed"
run 0 search one.nf queries.npy -k 10 --probes 128 --exclude even.csv -q --format csv -o -
is "$(lines out)/$(cut -d , -f 3 out | awk '$1 % 2 == 0' | wc -l)" 10000/0 "even ids where they are excluded"
printf '7\n' >seven.csv
run 0 search one.nf queries.npy -k 10 --probes 128 --filter seven.csv -q --format csv -o -
is "$(lines out)/$(cut -d , -f 3 out | sort -u)" 1000/7 "one id is allowed"

# Ids: of a file, and row numbers of the data's file.
printf '900\n5000000000\n7\n12\n' >ids.csv
run 0 build line.csv -o ids.nf --ids ids.csv --lists 1 --bits 9 -q
run 0 search ids.nf origin.csv -k 4 --probes 1 -q --format csv -o -
is "$(cut -d , -f 3 out | sort -n | tr '\n' ' ')" "7 12 900 5000000000 " "given ids"
run 0 build line.csv -o ids.nf --ids ids.csv --rows 1:3 --lists 1 -q
run 0 search ids.nf origin.csv -k 4 --probes 1 -q --format csv -o -
is "$(cut -d , -f 3 out | sort -n | tr '\n' ' ')" "7 5000000000 " "given ids of some rows"
run 0 build line.csv -o ids.nf --rows 2: --lists 1 -q
run 0 search ids.nf origin.csv -k 4 --probes 1 -q --format csv -o -
is "$(cut -d , -f 3 out | sort -n | tr '\n' ' ')" "2 3 " "row numbers of the file"

# Other metrics, and exact ranking. The true neighbours come from knn, which cli_knn compares with SciPy.
for metric in ip cosine; do
    run 0 knn base.npy queries.npy -k 20 --metric $metric -q -o near.npz
    build other.nf --bits 8 --lists 64 --metric $metric --keep-vectors
    run 0 search other.nf queries.npy -k 10 --probes 64 --truth near.npz --json
    at_least "$(json recall)" 0.95 "recall by $metric"
    run 0 search other.nf queries.npy -k 10 --probes 64 --rerank 50 --truth near.npz --json
    at_least "$(json recall)" 0.999 "recall by $metric with exact ranking"
done
run 6 search one.nf queries.npy -k 10 --rerank 20
one_line "keep"

# Refused: 2.
refused() {
    local code=$1 text=$2
    shift 2
    run "$code" "$@"
    one_line "$text"
    [ ! -s out ] || fail "nearfield $*: standard output is not empty"
}
refused 2 "build needs -o INDEX" build base.npy
refused 2 "an index goes to a file" build base.npy -o -
refused 2 "--bits is '10', allowed are numbers from 1 to 9" build base.npy -o x.nf --bits 10
refused 2 "--probes is '0'" search one.nf queries.npy --probes 0
refused 2 "--probes is '4,'" search one.nf queries.npy --probes 4,
refused 2 "--probes is '4,x'" search one.nf queries.npy --probes 4,x
refused 2 "--probes is '99999999999999999999'" search one.nf queries.npy --probes 99999999999999999999
refused 2 "--recall is '2', allowed are numbers from 0 to 1" search one.nf queries.npy --recall 2
refused 2 "--probes or --recall, not both" search one.nf queries.npy --probes 4 --recall 0.9
refused 2 "--filter or --exclude, not both" search one.nf queries.npy --filter even.csv --exclude even.csv
refused 2 "one number of --probes" search one.nf queries.npy --probes 1,2 -o x.npz
refused 2 "--k is '0'" search one.nf queries.npy -k 0
refused 2 "an argument is missing" search one.nf -k 3
refused 2 "an argument is missing" verify
refused 2 "neighbours cannot be read from suffix 'csv'" search one.nf queries.npy --truth even.csv

# Input: 3.
printf '1\n2\n' >two.csv
printf '1\n-2\n' >negative.csv
printf '1.5\n' >half.csv
refused 3 "missing.nf: cannot open" search missing.nf queries.npy
refused 3 "missing.npy: cannot open" search one.nf missing.npy
refused 3 "two.csv: rows have 1 values, but those of the index one.nf have 16" search one.nf two.csv
refused 3 "two.csv: 2 ids for 19,000 rows" build base.npy -o x.nf --ids two.csv
refused 3 "queries.npy: rows have 16 values; ids are one a row" build base.npy -o x.nf --ids queries.npy
refused 3 "negative.csv: row 1 (from 0) is no id" search one.nf queries.npy --filter negative.csv
refused 3 "half.csv: row 0 (from 0) is no id" search one.nf queries.npy --filter half.csv
refused 3 "four.npz: neighbours of 1 queries, but queries.npy has 1,000" search one.nf queries.npy --truth four.npz
refused 3 "four.npz: 4 neighbours a query, fewer than the 10 asked for" search line.nf origin.csv --truth four.npz
refused 3 "base.npy: has no rows" build base.npy -o x.nf --rows 3:3

# Damage: 4. A byte in the middle, a file cut short, a file that is no index.
bytes=$(wc -c <one.nf)
cp one.nf bad.nf
printf 'X' | dd of=bad.nf bs=1 seek=$((bytes / 2)) conv=notrunc 2>/dev/null
cmp -s one.nf bad.nf && printf 'Y' | dd of=bad.nf bs=1 seek=$((bytes / 2)) conv=notrunc 2>/dev/null
refused 4 "bad.nf: " verify bad.nf
grep -q '[0-9]' err || fail "no place of the damage: $(cat err)"
refused 4 "bad.nf: " search bad.nf queries.npy -o x.npz
for cut in 0 7 64 1000 $((bytes - 1)); do
    head -c "$cut" one.nf >cut.nf
    refused 4 "cut.nf: " verify cut.nf
    refused 4 "cut.nf: " search cut.nf queries.npy -k 3 --mmap --verify structure
done
refused 4 "cut.nf: " info cut.nf
refused 4 "base.npy: " verify base.npy
refused 3 "missing.nf: cannot open" verify missing.nf
refused 3 "missing.nf: cannot open" info missing.nf

# Limits: 5. Output that cannot be written: 1.
refused 5 "memory limit" build base.npy -o x.nf --memory 100K
refused 5 "memory limit" search one.nf queries.npy -k 10 --memory 100K
refused 1 "nowhere/x.nf" build line.csv -o nowhere/x.nf
[ ! -e x.nf ] || fail "x.nf was made"
[ ! -e x.npz ] || fail "x.npz was made"

# Signals in the middle of a build: the old file stays, and nothing else.
run 0 generate mixture -o long.npy --rows 60000 --dims 256 -q
mkdir place
echo old >place/kept.nf
interrupted() {
    local signal=$1 expected=$2 process tries=0
    rm -f err
    env --default-signal=INT,TERM "$NEARFIELD" build long.npy --lists 4096 --iterations 50 --isa scalar --threads 1 \
        --progress always -o place/kept.nf 2>err >out &
    process=$!
    until grep -qs . err || [ $tries = 1200 ]; do
        sleep 0.05
        tries=$((tries + 1))
    done
    kill "-$signal" $process
    wait $process 2>/dev/null
    is $? "$expected" "exit code after $signal"
    [ "$signal" = KILL ] || says err "nearfield: interrupted"
    is "$(ls -A place)/$(cat place/kept.nf)" kept.nf/old "the folder after $signal"
}
interrupted INT 130
interrupted TERM 143
interrupted KILL 137

finish
