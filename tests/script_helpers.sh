# SPDX-License-Identifier: Apache-2.0
# What the command's tests share: sourced by cli_<name>.sh. NEARFIELD is the command, SOURCE_DIR the source tree.
# A test works in an empty folder of its own, which goes when it ends, and counts its failures.
set -u
: "${NEARFIELD:?path of the command}" "${SOURCE_DIR:?root of the source tree}"
data="${NEARFIELD_SMALL_DATA:-$SOURCE_DIR/data}"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
failures=0

fail() {
    echo "FAILED: $*" >&2
    failures=$((failures + 1))
}

# run CODE ARGUMENTS...: runs the command; standard output to ./out, stderr to ./err.
run() {
    local expected=$1 code
    shift
    "$NEARFIELD" "$@" >out 2>err
    code=$?
    [ "$code" = "$expected" ] || fail "nearfield $*: exit code $code, expected $expected; $(head -c 300 err)"
}

# says FILE TEXT: the file holds the text.
says() {
    grep -qF -- "$2" "$1" || fail "'$2' is not in $1: $(head -c 300 "$1")"
}

# one_line TEXT: stderr is one line, begins with "nearfield: " and holds the text.
one_line() {
    [ "$(wc -l <err)" = 1 ] || fail "stderr is not one line: $(head -c 300 err)"
    case $(cat err) in
    "nearfield: "*"$1"*) ;;
    *) fail "'$1' is not in: $(head -c 300 err)" ;;
    esac
}

# same A B: two files are equal.
same() {
    cmp -s "$1" "$2" || fail "$1 and $2 differ"
}

# is FOUND EXPECTED WHAT
is() {
    [ "$1" = "$2" ] || fail "$3: $1, expected $2"
}

# json KEY [FILE]: the value of a key of a one-line object.
json() {
    sed -n 's/.*"'"$1"'": \("[^"]*"\|[^,}]*\).*/\1/p' "${2:-out}"
}

# lines FILE: number of lines.
lines() {
    wc -l <"$1" | tr -d ' '
}

finish() {
    [ "$failures" = 0 ] || echo "$failures checks failed" >&2
    [ "$failures" = 0 ]
    exit
}
