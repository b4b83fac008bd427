#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Checks the built library from outside:
#   - libnearfield.so exports exactly the symbols of cmake/exports.map, which follow the public headers;
#   - its soname carries cmake/SOVERSION, and it needs nothing beyond the C library, zlib and libxxhash;
#   - libnearfield-cuda.so, where it was built, exports its entry point alone, and needs no more than the C and C++
#     libraries: CUDA's runtime is inside, the driver's libraries are opened at run time;
#   - every global symbol of libnearfield.a begins with nf_;
#   - vector instructions beyond the baseline stand only in objects of src/cpu/kernels/<instruction set> (x86-64).
# Usage: check_symbols.sh SOURCE_DIR BUILD_DIR
set -eu -o pipefail
source_dir=$1
build_dir=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bad=0

complain() {
    echo "check_symbols: $1" >&2
    bad=1
}

# Empty input would make every comparison pass.
need_lines() { # FILE WHAT
    [ -s "$1" ] || { complain "no $2 found"; exit 1; }
}

check_exports() {
    sed -n 's/^ *\(nf_[a-z0-9_]*\);$/\1/p' "$source_dir/cmake/exports.map" | sort >"$work/listed"
    nm -D --defined-only "$build_dir/libnearfield.so" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' |
        sort >"$work/exported"
    need_lines "$work/listed" "symbols in cmake/exports.map"
    need_lines "$work/exported" "exported symbols"
    diff "$work/listed" "$work/exported" >"$work/diff" && return
    complain "exports differ from cmake/exports.map (<: listed and not exported, >: exported and not listed)"
    grep '^[<>]' "$work/diff" >&2
}

check_dynamic() {
    readelf -d "$build_dir/libnearfield.so" >"$work/dynamic"
    grep -q "SONAME.*\[libnearfield\.so\.$(cat "$source_dir/cmake/SOVERSION")\]" "$work/dynamic" ||
        complain "soname: $(grep SONAME "$work/dynamic")"
    sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' "$work/dynamic" >"$work/needed"
    need_lines "$work/needed" "needed libraries"
    if grep -vE '^(libc|libm|libz|libxxhash|libdl|libpthread|ld-linux[a-z0-9-]*)\.so' "$work/needed"; then
        complain "needs the libraries above"
    fi
}

check_module() {
    local module=$build_dir/libnearfield-cuda.so
    [ -e "$module" ] || return 0
    nm -D --defined-only "$module" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' >"$work/exported"
    [ "$(cat "$work/exported")" = nf_engine_module ] ||
        complain "libnearfield-cuda.so exports: $(tr '\n' ' ' <"$work/exported" | head -c 300)"
    readelf -d "$module" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' >"$work/needed"
    need_lines "$work/needed" "libraries that libnearfield-cuda.so needs"
    if grep -vE '^(libc|libm|libdl|libpthread|librt|libstdc\+\+|libgcc_s|ld-linux[a-z0-9-]*)\.so' "$work/needed"; then
        complain "libnearfield-cuda.so needs the libraries above"
    fi
    if readelf -d "$module" | grep -E '\((RPATH|RUNPATH|TEXTREL)\)'; then
        complain "libnearfield-cuda.so has the entries above"
    fi
}

check_names() {
    nm --defined-only --extern-only "$build_dir/libnearfield.a" | awk 'NF == 3 { print $3 }' >"$work/names"
    need_lines "$work/names" "symbols in libnearfield.a"
    if grep -v '^nf_' "$work/names"; then
        complain "the global names above do not begin with nf_"
    fi
}

check_baseline() {
    [ "$(uname -m)" = x86_64 ] || return 0
    find "$build_dir/src" -name '*.o' ! -path '*/kernels/avx*' ! -name '*.cu.o' >"$work/objects"
    need_lines "$work/objects" "objects"
    while read -r object; do
        if objdump -d --no-show-raw-insn "$object" | grep -qE '%[yz]mm|[[:space:]]v[a-z0-9]+[[:space:]]+.*%xmm'; then
            complain "${object##*nearfield_objects.dir/} holds AVX instructions"
        fi
    done <"$work/objects"
}

check_exports
check_dynamic
check_module
check_names
check_baseline
exit $bad
