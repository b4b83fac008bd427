#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Folds what run.sh found into a corpus, minimised: fold.sh BINARIES CORPUS OUT [MOST_BYTES]. Files of the corpus stay;
# new ones are those that add coverage, the smallest first, none above MOST_BYTES (1,024), all of a target below 20 KB.
set -e -u
binaries=$(realpath "$1") corpus=$(realpath "$2") out=$(realpath "$3") most=${4:-1024}
for folder in "$out"/corpus/*/; do
    name=$(basename "$folder")
    target=$binaries/fuzz_$name
    [ "$name" != ivf ] || target=$binaries/fuzz_ivf_open
    work=$(mktemp -d)
    mkdir "$work/small" "$work/merged"
    find "$folder" -type f -size -"$((most + 1))"c -exec cp {} "$work/small" \;
    "$target" -merge=1 "$work/merged" "$corpus/$name" "$work/small" >/dev/null 2>&1
    added=0 left=20000
    for file in $(ls -Sr "$work/merged"); do
        bytes=$(stat -c %s "$work/merged/$file")
        [ "$bytes" -le "$most" ] && [ "$bytes" -le $left ] || continue
        left=$((left - bytes))
        if ! cat "$corpus/$name"/* | cmp -s - /dev/null && ! cmp -s "$work/merged/$file" "$corpus/$name/$file"; then
            cp "$work/merged/$file" "$corpus/$name/"
            added=$((added + 1))
        fi
    done
    echo "$name: $added added"
    rm -rf "$work"
done
