#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Fills FOLDER with zlib, xxHash and cmocka for AArch64, from this Debian's own mirror: what cmake/aarch64-linux-gnu.cmake
# builds against. Nothing is installed, and apt's own lists and list of architectures stay as they are.
# Usage: arm64_sysroot.sh FOLDER
set -eu -o pipefail
folder=${1:?usage: arm64_sysroot.sh FOLDER}
packages=(zlib1g zlib1g-dev libxxhash0 libxxhash-dev libcmocka0 libcmocka-dev)

[ -e "$folder/complete" ] && exit 0
rm -rf "$folder"
work=$folder/apt
mkdir -p "$work/lists/partial" "$work/cache/archives/partial" "$work/packages"
work=$(cd "$work" && pwd)
touch "$work/status"

apt_arm64() {
    apt-get -qq -o APT::Architecture=arm64 -o APT::Architectures::=arm64 -o APT::Sandbox::User="$(id -un)" \
        -o Dir::State::lists="$work/lists" -o Dir::State::status="$work/status" -o Dir::Cache="$work/cache" "$@"
}

apt_arm64 update
(cd "$work/packages" && apt_arm64 download "${packages[@]}")
for package in "$work"/packages/*.deb; do dpkg-deb -x "$package" "$folder"; done
find "$folder" -type l -lname '/*' | while read -r link; do ln -sfr "$folder$(readlink "$link")" "$link"; done
rm -rf "$work"
touch "$folder/complete"
