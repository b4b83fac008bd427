#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Help, manual page, docs/command.md, version and doctor.
. "$SOURCE_DIR/tests/script_helpers.sh"

run 0 help
says out "Usage: nearfield COMMAND"
cp out overview
run 0 --help
same out overview
run 0 -h
same out overview

for command in join knn dbscan components build search verify info convert generate doctor help version; do
    grep -q "^  $command " overview || fail "the overview lacks $command"
    run 0 help $command
    cp out long
    run 0 $command --help
    same out long
    run 0 $command -h
    same out long
    is "$(sed -n 3p out | cut -d ' ' -f 1-3)" "Usage: nearfield $command" "usage line of $command"
    is "$(sed -n 5p out)" "Examples:" "examples come first in $command"
    awk -v name=$command 'length > 100 { print name ": a line of " length " characters" }' out >wide
    [ ! -s wide ] || fail "$(cat wide)"
done
run 0 join --radius 3 --help # no argument, but help is asked for

# Every option of the library's tables stands in the help of join.
run 0 help join
for option in radius candidates refine distances sort self half strict max-results output format counts rows columns \
    input-format dtype dims skip-invalid query-rows engine isa threads memory progress quiet json; do
    grep -q -- "--$option" out || fail "help join lacks --$option"
done

run 0 help search
for option in k probes recall epsilon0 rerank filter exclude truth batch repeat mmap verify query-rows; do
    grep -q -- "--$option" out || fail "help search lacks --$option"
done
grep -q -- '-k, --k K' out || fail "help search lacks -k"

run 0 help --markdown
cmp -s out "$SOURCE_DIR/docs/command.md" || fail "docs/command.md is not what 'nearfield help --markdown' prints"

run 0 help --man
says out ".TH NEARFIELD 1"
is "$(grep -c '^\.SS nearfield ' out)" 13 "commands in the manual page"
if command -v man >/dev/null && command -v groff >/dev/null; then
    LC_ALL=C.UTF-8 MANROFFSEQ='' MANWIDTH=80 man --warnings -E UTF-8 -l -Tutf8 -Z out >/dev/null 2>warnings
    [ ! -s warnings ] || fail "manual page: $(head -3 warnings)"
fi

# Completion: what bash would offer after the words; the last one is being typed.
run 0 help --bash
offers() {
    bash -c 'complete() { :; }; . ./out; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _nearfield; echo "${COMPREPLY[*]}"' \
        nearfield nearfield "$@"
}
is "$(offers j)" join "completion of j"
is "$(offers help con)" convert "completion of help con"
is "$(offers build x.npy --metric c)" cosine "completion of build --metric c"
is "$(offers join x.npy --radiu)" --radius "completion of join --radiu"
is "$(offers join x.npy --sort d)" distance "completion of join --sort d"
is "$(offers generate --se)" --seed "completion of generate --se"
is "$(offers join x)" "" "completion of a file name is bash's own"

run 0 version
says out "nearfield $(sed -n 's/^#define NF_VERSION "\(.*\)"/\1/p' "$SOURCE_DIR/include/nearfield/version.h")"
cp out short
run 0 --version
same out short

run 0 doctor
says out "scalar   passed"
says out "cpu        available with "
run 0 doctor --json
is "$(json passed)/$(json scalar)" 'true/"passed"' "self-test"
if command -v python3 >/dev/null; then
    python3 -c 'import json, sys; json.load(sys.stdin)' <out || fail "doctor --json is not JSON"
    printf '1,2\n3,4\n' >'odd "name"\.csv'
    run 0 join 'odd "name"\.csv' --radius 9 --json -o $'\xff\t.csv'
    python3 -c 'import json, sys
found = json.load(sys.stdin)["output"]
sys.exit(found != "\ufffd\t.csv")' <out || fail "escapes in JSON: $(cat out)"
fi

finish
