#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Shows Nearfield at work: every pair of the 20,000 letters in data/tabular/letter.csv that lie within radius 3.
set -eu -o pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
source tools/packages.sh
[ $# -eq 0 ] || { echo "usage: ./demo.sh" >&2; exit 2; }

need_packages cmake ninja-build gcc libc6-dev zlib1g-dev
echo "Building (log: build/demo.log)"
mkdir -p build demo
{ cmake --preset release -DNEARFIELD_TESTS=OFF && cmake --build --preset release --parallel "$(nproc)"; } \
    >build/demo.log 2>&1 || { tail -n 20 build/demo.log >&2; exit 1; }

show() {
    printf '\n$ %s\n' "$*"
    "$@"
}
show build/release/nearfield join data/tabular/letter.csv --radius 3 -o demo/letter_radius3.npz

cat <<'TEXT'

The result is a SciPy matrix: row i holds the neighbours of letter i and their distances. To open it:
  python3 -c "import scipy.sparse; print(repr(scipy.sparse.load_npz('demo/letter_radius3.npz')))"
TEXT
