#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Recall of IVF-RaBitQ on sift-photos (L2) and glove-100 (cosine) for every number of bits, against tests/regress/sift.tsv and
# glove.tsv. 2,000 queries.
[ -n "${NEARFIELD_DATA:-}" ] || exit 77
. "$SOURCE_DIR/tests/script_helpers.sh"
. "$SOURCE_DIR/tests/recall_helper.sh"
TOLERANCE=0.006
sift=$NEARFIELD_DATA/sift-photos
glove=$NEARFIELD_DATA/glove-100

run 0 convert "$sift/query.u8bin" sift.npy --rows 0:2000 -q
run 0 convert "$glove/query.npy" glove.npy --rows 0:2000 -q
run 0 knn "$sift/base.u8bin" sift.npy -k 30 -q -o sift.npz
run 0 knn "$glove/base.npy" glove.npy -k 20 --metric cosine -q -o glove.npz
for bits in 1 2 3 4 5 6 7 8 9; do
    measure sift l2 1024 "$sift/base.u8bin" sift.npy sift.npz $bits 16 1024
    measure glove cosine 1024 "$glove/base.npy" glove.npy glove.npz $bits 64 1024
done
finish
