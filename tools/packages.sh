# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# For test.sh and demo.sh: installs what is missing on Debian and Ubuntu, and only that.

# Whether the thing that a package is needed for is there already.
package_is_there() {
    case $1 in
        cmake) command -v cmake >/dev/null ;;
        ninja-build) command -v ninja >/dev/null ;;
        gcc) command -v cc >/dev/null && command -v gcc >/dev/null ;;
        g++) command -v c++ >/dev/null && command -v g++ >/dev/null ;;
        libc6-dev) [ -e /usr/include/stdio.h ] ;;
        pkg-config) command -v pkg-config >/dev/null ;;
        zlib1g-dev) [ -e /usr/include/zlib.h ] ;;
        libxxhash-dev) [ -e /usr/include/xxhash.h ] ;;
        libcmocka-dev) [ -e /usr/include/cmocka.h ] ;;
        gcc-aarch64-linux-gnu) command -v aarch64-linux-gnu-gcc >/dev/null ;;
        libc6-dev-arm64-cross) [ -e /usr/aarch64-linux-gnu/include/stdio.h ] ;;
        qemu-user) command -v qemu-aarch64 >/dev/null || command -v qemu-aarch64-static >/dev/null ;;
        python3) command -v python3 >/dev/null ;;
        *) echo "packages.sh: no rule for $1" >&2; return 1 ;;
    esac
}

# need_packages NAME...: installs the missing ones with apt-get, through sudo where that is needed.
need_packages() {
    local missing=() package as_root=()
    for package in "$@"; do
        package_is_there "$package" || missing+=("$package")
    done
    [ ${#missing[@]} -eq 0 ] && return 0
    if ! command -v apt-get >/dev/null; then
        echo "Needed and not found: ${missing[*]} (names of Debian packages). Please install them." >&2
        return 1
    fi
    [ "$(id -u)" -eq 0 ] || as_root=(sudo)
    echo "Installing with apt-get: ${missing[*]}"
    "${as_root[@]}" apt-get update -qq &&
        "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
            "${missing[@]}" >/dev/null
}
