#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Folds what run.sh found into a corpus: fold.sh BINARIES CORPUS OUT [MOST_BYTES [FOLDER_BYTES]]. Files of the corpus stay;
# new ones are those that add coverage to it, the smallest first, none above MOST_BYTES (1,024), at most FOLDER_BYTES
# (12,000) added to a folder.
set -e -u
binaries=$(realpath "$1") corpus=$(realpath "$2") out=$(realpath "$3") most=${4:-1024} room=${5:-12000}
for folder in "$out"/corpus/*/; do
    name=$(basename "$folder")
    target=$binaries/fuzz_$name
    [ "$name" != ivf ] || target=$binaries/fuzz_ivf_open
    work=$(mktemp -d)
    mkdir "$work/small" "$work/all"
    cp "$corpus/$name"/* "$work/all"
    find "$folder" -type f -size -"$((most + 1))"c -exec cp -t "$work/small" {} +
    # Adds to the first folder the files of the second that reach what no file of the first does.
    if ! "$target" -merge=1 "$work/all" "$work/small" >"$work/log" 2>&1; then
        cat "$work/log" >&2
        exit 1
    fi
    added=0 left=$room
    for file in $(ls -Sr "$work/all"); do
        [ ! -e "$corpus/$name/$file" ] || continue
        bytes=$(stat -c %s "$work/all/$file")
        [ "$bytes" -le "$left" ] || break
        left=$((left - bytes))
        cp "$work/all/$file" "$corpus/$name/"
        added=$((added + 1))
    done
    echo "$name: $added added, $((room - left)) bytes"
    rm -rf "$work"
done
