#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Shows Nearfield at work on the 20,000 letters in data/tabular/letter.csv: every pair within radius 3, exactly; then an
# index of 19,000 of them, searched with the others: recall against the exact answer, and queries per second.
set -eu -o pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
source tools/packages.sh
[ $# -eq 0 ] || { echo "usage: ./demo.sh" >&2; exit 2; }

need_packages cmake ninja-build gcc libc6-dev pkg-config zlib1g-dev libxxhash-dev
echo "Building (log: build/demo.log)"
mkdir -p build demo
{ cmake --preset release -DNEARFIELD_TESTS=OFF && cmake --build --preset release --parallel "$(nproc)"; } \
    >build/demo.log 2>&1 || { tail -n 20 build/demo.log >&2; exit 1; }

show() {
    printf '\n$ %s\n' "$*"
    "$@"
}
show build/release/nearfield join data/tabular/letter.csv --radius 3 -o demo/letter_radius3.npz

letters=data/tabular/letter.csv
show build/release/nearfield knn "$letters" "$letters" --rows 0:19000 --query-rows 19000: -k 50 -o demo/truth.npz
show build/release/nearfield build "$letters" --rows 0:19000 --bits 7 -o demo/letter.nf
show build/release/nearfield search demo/letter.nf "$letters" --query-rows 19000: -k 10 --probes 2,4,8,16,32 \
    --truth demo/truth.npz --repeat 5
show build/release/nearfield search demo/letter.nf "$letters" --query-rows 19000: -k 10 --recall 0.95 \
    --truth demo/truth.npz -o demo/neighbours.npz

cat <<'TEXT'

The join's result is a SciPy matrix: row i holds the neighbours of letter i and their distances. To open it:
  python3 -c "import scipy.sparse; print(repr(scipy.sparse.load_npz('demo/letter_radius3.npz')))"
The search's result is arrays ids, distances and counts:
  python3 -c "import numpy; print(numpy.load('demo/neighbours.npz')['ids'])"
TEXT
