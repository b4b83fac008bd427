#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Failures of the command: exit codes, messages of one line, nothing left under the output's name.
. "$SOURCE_DIR/tests/script_helpers.sh"
printf '0,0\n3,4\n6,8\n' >p.csv

# refused CODE TEXT ARGUMENTS...
refused() {
    local code=$1 text=$2
    shift 2
    run "$code" "$@"
    one_line "$text"
    [ ! -s out ] || fail "nearfield $*: standard output is not empty"
}

# The command line: 2.
refused 2 "a command is missing"
refused 2 "there is no command 'jion', did you mean 'join'?" jion
refused 2 "a command must come before the option '--radius'" --radius 3
refused 2 "join has no option '--radus', did you mean '--radius'?" join p.csv --radus 1
refused 2 "join has no option '--zzzzzz'; see" join p.csv --zzzzzz
refused 2 "join has no option '-x'" join p.csv -x
refused 2 "join has no option '--o'" join p.csv --o x
refused 2 "--radius needs a value" join p.csv --radius
refused 2 "--radius needs a value, not an empty one" join p.csv --radius=
refused 2 "--radius is '-1', a number of at least 0 is needed" join p.csv --radius -1
refused 2 "--radius is 'nan'" join p.csv --radius nan
refused 2 "--radius is '1x'" join p.csv --radius 1x
refused 2 "--candidates is 'magic', allowed are auto|rt|bvh|boxes|none" join p.csv --radius 1 --candidates magic
refused 2 "--threads is '5000', allowed are numbers from 0 to 1024" join p.csv --radius 1 --threads 5000
refused 2 "--memory is '1X', a size such as 512M or 8G is needed" join p.csv --radius 1 --memory 1X
refused 2 "--rows is '3:1'" join p.csv --radius 1 --rows 3:1
refused 2 "--query-rows is 'x'" join p.csv p.csv --radius 1 --query-rows x
refused 2 "--query-rows needs QUERIES" join p.csv --radius 1 --query-rows 0:1
refused 2 "--quiet takes no value" join p.csv --radius 1 --quiet=3
refused 2 "--progress is 'loud', allowed are auto|always|never" join p.csv --radius 1 --progress loud
refused 2 "join needs --radius R" join p.csv
refused 2 "an argument is missing" join --radius 1
refused 2 "one argument too many: 'c'" join a b c --radius 1
refused 2 "--half is for a join without QUERIES" join p.csv p.csv --radius 1 --half
refused 2 "--self is for a join without QUERIES" join p.csv p.csv --radius 1 --self
refused 2 "'-o -' needs --format" join p.csv --radius 1 -o -
refused 2 "generate needs -o FILE" generate uniform
refused 2 "build needs -o INDEX" build p.csv
refused 2 "knn has no option '--o'" knn p.csv p.csv --o x
refused 2 "--k needs a value" knn p.csv p.csv -k
refused 2 "--k is 'x'" knn p.csv p.csv -kx
refused 2 "there is no kind 'cube'" generate cube -o x.npy
refused 2 "--dims is '0', allowed are numbers from 1 to 1048576" generate uniform -o x.npy --dims 0
refused 2 "there is no command 'jion'" help jion
refused 2 "suffix 'foo'" join p.csv --radius 1 -o x.foo
refused 2 "p.csv: column 7" join p.csv --radius 1 --columns 7
refused 2 "p.csv: rows up to 9" join p.csv --radius 1 --rows 1:9

# Input: 3.
"$NEARFIELD" generate uniform -o u.npy --rows 100 --dims 5 -q || fail "cannot make u.npy"
"$NEARFIELD" generate uniform -o u.fvecs --rows 100 --dims 5 -q || fail "cannot make u.fvecs"
head -c 1000 u.npy >cut.npy
head -c 40 u.npy >head.npy
head -c 1001 u.fvecs >cut.fvecs
: >empty.npy
: >empty.csv
printf '1,2,3\n4,5\n' >ragged.csv
printf '1,2\n3,abc\n' >letters.csv
printf '1,2\n3,nan\n' >nan.csv
mkdir folder.npy
printf 'ANUMPY' >magic.npy
for file in missing.npy cut.npy head.npy cut.fvecs empty.npy ragged.csv letters.csv nan.csv folder.npy magic.npy; do
    refused 3 "$file: " join "$file" --radius 1 -o x.npz
    [ ! -e x.npz ] || fail "$file: x.npz was made"
done
refused 3 "empty.csv" join empty.csv --radius 1
refused 3 "u.npy: rows have 5 values, but those of p.csv have 2" join p.csv u.npy --radius 1
refused 3 "missing.npy" info missing.npy
refused 3 "cut.npy" info cut.npy
refused 3 "cut.npy" knn cut.npy p.csv -k 1 -o x.npz
refused 4 "u.npy: " verify u.npy
refused 3 "missing.csv" convert missing.csv x.npy

# A name with a line feed still gives one line.
refused 3 "cannot open" join $'two\nlines.npy' --radius 1

# Limits: 5. Engines: 6.
refused 5 "3" join p.csv --radius 9 --max-results 3
refused 5 "memory limit" join p.csv --radius 9 --memory 1K
refused 5 "memory limit" knn p.csv p.csv -k 10000 --memory 1K
refused 5 "memory limit" generate uniform -o x.npy --rows 1000000 --memory 1M
refused 6 "cuda" join p.csv --radius 1 --engine cuda
refused 6 "cuda" knn p.csv p.csv --engine cuda
refused 6 "cuda" join p.csv --radius 1 --candidates rt
refused 6 "tensor" join p.csv --radius 1 --refine tensor
refused 6 "int8" join u.npy --radius 1 --refine int8

# Output that cannot be written: 1, and before the work. Output that is the input: 2.
refused 2 "the output 'p.csv' is the input './p.csv'" join ./p.csv --radius 9 -o p.csv
refused 2 "the output 'u.npy' is the input 'u.npy'" convert u.npy u.npy
refused 2 "the output 'u.npy' is the input 'u.npy'" build u.npy -o u.npy
refused 1 "nowhere/x.nf: cannot write" build u.npy -o nowhere/x.nf
refused 1 "nowhere/x.npz" join p.csv --radius 9 -o nowhere/x.npz
refused 1 "nowhere/x.npz" knn p.csv p.csv -k 1 -o nowhere/x.npz
refused 1 "nowhere/x.nf" build u.npy --lists 2 -o nowhere/x.nf
refused 1 "folder.npy" join p.csv --radius 9 -o folder.npy
if [ -c /dev/full ]; then
    for arguments in "join p.csv --radius 9 --format csv -o -" "join p.csv --radius 9" "help" "info p.csv" \
        "join p.csv --radius 9 --json" "generate uniform --format csv -o -"; do
        # shellcheck disable=SC2086
        "$NEARFIELD" $arguments >/dev/full 2>err
        is $? 1 "exit code of nearfield $arguments >/dev/full"
        says err "nearfield: standard output: cannot write: No space left on device"
    done
    run 1 join p.csv --radius 9 -q --json=/dev/full
    says err "nearfield: /dev/full: cannot write"
    [ -c /dev/full ] || fail "/dev/full was replaced"
fi

# An old file stays when the work fails, and no temporary file is left.
echo old >kept.npz
refused 5 "" join u.npy --radius 9 --max-results 3 -o kept.npz
is "$(cat kept.npz)" old "the old file after a failure"
(
    ulimit -f 1 # blocks of 1024 bytes
    "$NEARFIELD" generate uniform -o kept.npz --format npy --rows 5000 -q 2>err
    echo $? >code
)
is "$(cat code)" 1 "exit code over the file size limit"
says err "kept.npz"
is "$(cat kept.npz)" old "the old file after a full disk"

run 2 join p.csv --radius 1 --format csv -o - --json=-
says err "nearfield: --json needs a file"
run 2 join p.csv --radius 1 --format csv -o both --json=both
says err "nearfield: --json and --output name the same file, 'both'"
run 2 join p.csv --radius 1 --json=
says err "nearfield: --json= needs a value"
run 1 join p.csv --radius 9 -q --json=nowhere/about.json
says err "nearfield: nowhere/about.json: cannot write"

# With --json an object on stderr too.
run 3 join missing.npy --radius 1 --json
is "$(lines err)" 2 "lines on stderr"
says err '"status": "NF_ERR_IO", "exit": 3}'
run 2 join p.csv --radus 1 --json
says err '"status": "NF_ERR_ARGUMENT", "exit": 2}'

# A reader that goes away: quiet end.
"$NEARFIELD" generate uniform -o many.npy --rows 3000 -q
"$NEARFIELD" join many.npy --radius 9 --format csv -o - -q 2>err | head -1 >/dev/null
is "${PIPESTATUS[0]}" 1 "exit code after the reader is gone"
is "$(wc -c <err)" 0 "bytes on stderr after the reader is gone"

# Closed streams: their numbers are not those of other files, so nothing goes astray.
"$NEARFIELD" join p.csv --radius 9 --format npz -o - -q 2>err >&-
is $? 1 "exit code with standard output closed"
one_line "standard output: cannot write"
"$NEARFIELD" join p.csv --radius 9 -o kept.npz --progress always >out 2>&- <&-
is $? 0 "exit code with stderr closed"
"$NEARFIELD" join p.csv --radius 9 --format npz -o - -q >out
same out kept.npz
echo old >kept.npz

# Signals in the middle of the work. The join is one that takes long on any machine.
"$NEARFIELD" generate uniform -o long.npy --rows 80000 --dims 64 -q
interrupted() {
    local signal=$1 expected=$2 process tries=0
    rm -f err # an older one has the word that the loop below waits for
    env --default-signal="$signal" "$NEARFIELD" join long.npy --radius 0.1 --candidates none --refine fp64 \
        --isa scalar --threads 1 --progress always -o kept.npz 2>err &
    process=$!
    until grep -qs refine err || [ $tries = 1200 ]; do
        sleep 0.05
        tries=$((tries + 1))
    done
    kill "-$signal" $process
    wait $process
    is $? "$expected" "exit code after $signal"
    says err "nearfield: interrupted: cancelled during refine"
    is "$(cat kept.npz)" old "the old file after $signal"
}
interrupted INT 130
interrupted TERM 143

# Nothing else is in the folder: no temporary file was left behind.
printf '%s\n' code cut.fvecs cut.npy empty.csv empty.npy err found folder.npy head.npy kept.npz letters.csv long.npy \
    magic.npy many.npy nan.csv out p.csv ragged.csv u.fvecs u.npy wanted | LC_ALL=C sort >wanted
: >found
find . -mindepth 1 -maxdepth 1 -printf '%f\n' | LC_ALL=C sort >found
same found wanted
finish
