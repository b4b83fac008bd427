#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes the valid index files of corpus/ivf: make_corpus.sh COMMAND. What was found by fuzzing stays (found_*.nfi).
set -e -u
nearfield=$(realpath "$1")
corpus=$(realpath "$(dirname "${BASH_SOURCE[0]}")")/corpus/ivf
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

# index NAME OPTIONS...: of ./base.npy
index() {
    local name=$1
    shift
    "$nearfield" build base.npy -o "$corpus/$name.nfi" --isa scalar --threads 1 --recall-rows 16 -q "$@"
}

"$nearfield" generate mixture -o base.npy --rows 80 --dims 12 --clusters 5 --seed 7 -q
index bits1_l2 --bits 1 --lists 4
index bits3_ip --bits 3 --lists 6 --metric ip
index bits8_cosine --bits 8 --lists 5 --metric cosine
index bits9_l2_vectors --bits 9 --lists 3 --keep-vectors
index bits2_dense --bits 2 --lists 4 --rotation dense --metric cosine
index bits5_no_recall --bits 5 --lists 7 --recall-rows 0
index bits4_one_list --bits 4 --lists 1
seq 5000000000 5000000079 >ids.csv
index bits3_wide_ids --bits 3 --lists 4 --ids ids.csv
seq 79 -1 0 >ids.csv
index bits6_ids_ip_vectors --bits 6 --lists 4 --ids ids.csv --keep-vectors --metric ip

"$nearfield" generate uniform -o base.npy --rows 70 --dims 37 --seed 3 --dtype u8 -q
index bits7_u8_vectors --bits 7 --lists 20 --keep-vectors
index bits1_dense_vectors_cosine --bits 1 --lists 2 --rotation dense --keep-vectors --metric cosine
"$nearfield" generate uniform -o base.npy --rows 1 --dims 1 -q
index one_row --bits 5
"$nearfield" generate uniform -o base.npy --rows 300 --dims 2 -q
index bits2_long_list --bits 2 --lists 2
ls -l "$corpus"
