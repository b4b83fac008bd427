#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# nearfield knn: neighbours worked out by hand, and those that SciPy finds among the letters (cdist and cKDTree in
# binary64, ordered by distance, then row).
. "$SOURCE_DIR/tests/script_helpers.sh"

printf '0,0\n3,4\n6,8\n0,0\n' >p.csv
printf '0,0\n6,9\n' >q.csv

run 0 knn p.csv q.csv -k 3 -q --format csv -o -
printf '0,1,0,0\n0,2,3,0\n0,3,1,5\n1,1,2,1\n1,2,1,5.830951894845301\n1,3,0,10.816653826391969\n' >expected
same out expected
run 0 knn p.csv q.csv --k=3 -q --format csv -o -
same out expected
run 0 knn p.csv q.csv -k3 -q --format csv -o -
same out expected
run 0 knn p.csv q.csv -k 2 -q --format tsv -o - --metric ip
printf '0\t1\t0\t0\n0\t2\t1\t0\n1\t1\t2\t-108\n1\t2\t1\t-54\n' >expected
sed -i 's/\t-0$/\t0/' out # the sign of a zero is not promised
same out expected
run 0 knn p.csv q.csv -k 1 -q --format csv -o - --metric cosine --query-rows 0:1
printf '0,1,0,1\n' >expected # a zero row is as near to all
same out expected

# Fewer rows than k.
run 0 knn p.csv q.csv -k 6 -q --format csv -o - --query-rows 1:
is "$(lines out)/$(cut -d , -f 1 out | sort -u)" 4/1 "neighbours of query 1 among four rows"

# Ids stay those of the file: with ranges of rows, and with rows left out.
run 0 knn p.csv p.csv --rows 1:3 --query-rows 2: -k 1 -q --format csv -o -
printf '2,1,2,0\n3,1,1,5\n' >expected
same out expected
printf 'x,y\n0,0\nnan,1\n3,4\n5,inf\n0,1\n' >holes.csv
run 0 knn holes.csv holes.csv -k 2 -q --format csv -o - --skip-invalid
printf '0,1,0,0\n0,2,4,1\n2,1,2,0\n2,2,4,4.242640687119285\n4,1,4,0\n4,2,0,1\n' >expected
same out expected

# Every row asks, itself left out: by number, so that the copy of row 0 is its neighbour.
run 0 knn p.csv -k 2 -q --format csv -o -
printf '0,1,3,0\n0,2,1,5\n1,1,0,5\n1,2,2,5\n2,1,1,5\n2,2,0,10\n3,1,0,0\n3,2,1,5\n' >expected
same out expected
run 0 knn p.csv -k 5 -q --format csv -o - --rows 1:3
printf '1,1,2,5\n2,1,1,5\n' >expected
same out expected
run 0 knn p.csv -k 1 -q --format csv -o - --metric ip
printf '0,1,1,0\n1,1,2,-50\n2,1,1,-50\n3,1,0,0\n' >expected
sed -i 's/,-0$/,0/' out
same out expected
run 0 knn p.csv -k 9 -q --format csv -o - --metric cosine
is "$(cut -d , -f 1 out | sort | uniq -c | tr -s ' \n' ' ')" " 3 0 3 1 3 2 3 3 " "three neighbours of each of four rows"
run 0 knn holes.csv -k 2 -q --format csv -o - --skip-invalid
printf '0,1,4,1\n0,2,2,5\n2,1,4,4.242640687119285\n2,2,0,5\n4,1,0,1\n4,2,2,4.242640687119285\n' >expected
same out expected

# The summary and the object.
run 0 knn p.csv -k 3
says out "neighbours  3 nearest by l2, exactly, each row's own left out"
run 0 knn p.csv -k 3 --json -o n.npz
is "$(json rows)/$(json queries)/$(json k)" "4/4/3" "numbers in the object of a self-join"
run 0 knn p.csv q.csv -k 3
says out "neighbours  3 nearest by l2, exactly"
says out "not kept (-o FILE writes it)"
run 0 knn p.csv q.csv -k 3 --json -o n.npz
for key in command version engine isa rows queries dims seconds qps k metric compared rechecked skipped read_seconds \
    write_seconds output; do
    grep -q "\"$key\": " out || fail "--json lacks $key"
done
for key in $(sed -n '/^### knn/,/^### build/ s/^| `\(.*\)` |.*/\1/p' "$SOURCE_DIR/docs/command.md" | tr -d ,); do
    grep -q "\"$key\": " out || fail "docs/command.md names a key that --json lacks: $key"
done
is "$(json rows)/$(json queries)/$(json k)/$(json compared)/$(json metric)" '4/2/3/8/"l2"' "numbers in the object"

# Real data: SciPy's answers.
letter="$data/tabular/letter.csv"
few() {
    run 0 knn "$letter" "$letter" --rows 0:19000 --query-rows "$1" -k 5 --metric "$2" -q --format csv -o -
    is "$(cut -d , -f 3 out | tr '\n' ' ')" "$3 " "$2 neighbours of row $1"
}
few 19000:19001 l2 "14875 5644 2968 3765 7957"
is "$(cut -d , -f 4 out | tr '\n' ' ')" \
    "2.6457513110645907 3.4641016151377544 3.7416573867739413 3.872983346207417 4 " "distances of row 19000"
few 19001:19002 l2 "273 1526 13154 15437 3005"
few 19049:19050 l2 "4331 8675 18998 29 3048"
few 19000:19001 cosine "14875 5644 16827 10176 3765"
few 19049:19050 cosine "4331 8675 18998 8613 29"
few 19000:19001 ip "18468 11842 16749 5417 15333"
few 19001:19002 ip "12276 4290 3652 15330 16230"
is "$(cut -d , -f 4 out | tr '\n' ' ')" "-705 -697 -694 -686 -675 " "negated inner products of row 19001"

# The sum of all distances of a thousand queries, by SciPy 26869.22313805783; the same bytes from any number of threads
# and any instruction set.
run 0 knn "$letter" "$letter" --rows 0:19000 --query-rows 19000: -k 10 -q -o all.csv
is "$(awk -F , '{ s += $4 } END { printf "%.6f", s }' all.csv)" 26869.223138 "sum of the distances"
for options in "--threads 1" "--threads 3" "--isa scalar --query-rows 19000:19100"; do
    # shellcheck disable=SC2086
    run 0 knn "$letter" "$letter" --rows 0:19000 --query-rows 19000: -k 10 -q -o other.csv $options
    head -n "$(lines other.csv)" all.csv >part.csv
    same part.csv other.csv
done

# All letters with each other: the same as of the letters as queries, each with one neighbour more, itself left out.
run 0 knn "$letter" -k 5 -q -o self.csv --rows 0:3000
run 0 knn "$letter" "$letter" --rows 0:3000 --query-rows 0:3000 -k 6 -q -o other.csv
awk -F , '$1 != $3 && n[$1]++ < 5 { print $1 "," n[$1] "," $3 "," $4 }' other.csv >expected
same self.csv expected

# Every format holds the same.
for format in npz bin ivecs txt; do
    run 0 knn p.csv q.csv -k 3 -q -o n.$format
done
is "$(wc -c <n.bin)/$(wc -c <n.ivecs)" 56/32 "bytes of n.bin and n.ivecs"
if command -v python3 >/dev/null && python3 -c 'import numpy' 2>/dev/null; then
    python3 - <<'PYTHON' || fail "NumPy reads something else from n.npz"
import numpy
found = numpy.load("n.npz")
assert found["ids"].dtype == "i8" and found["counts"].dtype == "u4" and found["distances"].dtype == "f8"
assert found["ids"].tolist() == [[0, 3, 1], [2, 1, 0]] and found["counts"].tolist() == [3, 3]
assert found["distances"][0].tolist() == [0.0, 0.0, 5.0]
PYTHON
fi

# Refused.
run 2 knn p.csv q.csv -k 0
one_line "--k is '0', allowed are numbers from 1 to 10000"
run 2 knn p.csv q.csv -k 10001
one_line "--k is '10001'"
run 2 knn p.csv q.csv --metric l1
one_line "--metric is 'l1', allowed are l2|ip|cosine"
run 2 knn
one_line "an argument is missing"
run 2 knn p.csv --query-rows 0:2
one_line "--query-rows needs QUERIES"
run 2 knn p.csv --metric ip -k 10000
one_line "--k is 10000, at most 9999 are allowed with --metric ip and without QUERIES"
run 2 knn p.csv q.csv -k 1 -o -
one_line "'-o -' needs --format"
run 2 knn p.csv q.csv -k 1 --format npz
one_line "--format needs -o FILE"
run 2 knn p.csv q.csv -k 1 -o x.fvecs
one_line "suffix 'fvecs' cannot be written here; choose of: npz, csv, tsv, txt, ivecs, bin"
run 3 knn p.csv holes.csv -k 1
one_line "holes.csv"
printf '1,2,3\n' >three.csv
run 3 knn p.csv three.csv -k 1 -o x.npz
one_line "three.csv: rows have 3 values, but those of p.csv have 2"
run 5 knn "$letter" "$letter" -k 10000 --memory 64M -o x.npz
one_line "memory limit"
[ ! -e x.npz ] || fail "x.npz was made"

finish
