#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs into a fresh prefix and builds a small project against it, by find_package and by pkg-config, shared and
# static; then moves the prefix and does the same again. Environment: SOURCE_DIR, BUILD_DIR, CC, CMAKE_GENERATOR.
set -eu -o pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
project=$SOURCE_DIR/tests/install
unset LD_LIBRARY_PATH CMAKE_PREFIX_PATH

# run COMMAND...: its output is shown only when it fails.
run() {
    "$@" >"$work/log" 2>&1 && return
    echo "failed: $*" >&2
    cat "$work/log" >&2
    exit 1
}

by_cmake() { # PREFIX BUILD
    run cmake -S "$project" -B "$2" -DCMAKE_PREFIX_PATH="$1" -DCMAKE_C_COMPILER="$CC"
    run cmake --build "$2"
    grep -q "^nearfield_DIR:PATH=$1/" "$2/CMakeCache.txt" || { echo "found another nearfield" >&2; exit 1; }
    run "$2/consumer_nearfield"
    run "$2/consumer_static"
}

by_pkg_config() { # PREFIX PROGRAM
    local pc flags
    pc=$(find "$1" -name nearfield.pc)
    PKG_CONFIG_PATH=$(dirname "$pc")
    export PKG_CONFIG_PATH
    read -ra flags <<<"$(pkg-config --cflags --libs nearfield)"
    case "${flags[*]}" in
        *"$1"*) ;;
        *) echo "pkg-config points elsewhere: ${flags[*]}" >&2; exit 1 ;;
    esac
    run "$CC" -std=c17 "$project/main.c" -o "$2" "${flags[@]}"
    LD_LIBRARY_PATH=$(pkg-config --variable=libdir nearfield) run "$2"
    # The same line with the archive in place of -lnearfield is the static link.
    read -ra flags <<<"$(pkg-config --static --cflags --libs nearfield)"
    flags=("${flags[@]/#-lnearfield/$(pkg-config --variable=libdir nearfield)/libnearfield.a}")
    run "$CC" -std=c17 "$project/main.c" -o "$2-static" "${flags[@]}"
    run "$2-static"
}

# The command finds the shared library relative to itself.
by_command() { # PREFIX
    run "$1/bin/nearfield" --version
    grep -q nearfield "$work/log"
}

check_prefix() { # PREFIX NAME
    by_cmake "$1" "$work/build-$2"
    by_pkg_config "$1" "$work/consumer-$2"
    by_command "$1"
    [ -s "$1/share/man/man1/nearfield.1" ] || { echo "no man page" >&2; exit 1; }
    echo "$2: find_package, pkg-config, command and man page work"
}

run cmake --install "$BUILD_DIR" --prefix "$work/first"
check_prefix "$work/first" installed
mv "$work/first" "$work/second"
check_prefix "$work/second" moved
if grep -rIl "$work" "$work/second" 2>/dev/null; then
    echo "the files above hold the path of the prefix" >&2
    exit 1
fi
