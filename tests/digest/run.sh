#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# run.sh DIGEST_PROGRAM FILE RADIUS ROWS HOW PAIRS DIGEST: runs one join (HOW: auto, or every setting) and compares.
# LARGE/x is x in the folder NEARFIELD_DATA; without that variable the test is skipped (77). NEARFIELD_EMULATOR: a command
# that runs programs of another processor.
set -eu -o pipefail
program=$1 file=$2 radius=$3 rows=$4 how=$5 expected="$6 $7"
case $file in
    LARGE/*)
        [ -n "${NEARFIELD_DATA:-}" ] || { echo "NEARFIELD_DATA is not set"; exit 77; }
        path=$NEARFIELD_DATA/${file#LARGE/}
        ;;
    *) path=$NEARFIELD_SMALL_DATA/$file ;;
esac
read -ra emulator <<<"${NEARFIELD_EMULATOR:-}"
got=$("${emulator[@]}" "$program" "$path" "$radius" "$rows" "$how")
[ "$got" = "$expected" ] && exit 0
echo "$file, radius $radius, rows $rows: got '$got', expected '$expected'" >&2
exit 1
