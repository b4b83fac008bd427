# SPDX-License-Identifier: Apache-2.0
"""The sets of the approximate benchmark: files for the command, binary32 rows for libraries, and the right answer.

Files lie as data/README.md describes; a generated set is made by the command itself. Libraries get rows in binary32,
divided by their length where the metric is cosine, which ranks alike; the command gets the file. The right answer is
that of brute force: FAISS's flat index names candidates, binary64 decides among them, and a query whose candidates
binary32 cannot be trusted with is compared with every row. It is kept as .npz (ids, distances), which --truth reads."""
import dataclasses
import hashlib
import pathlib
import subprocess

import faiss
import numpy as np

import bench_machine

CANDIDATES = 64         # of which the k nearest are taken
KEPT = 20               # columns of the answer that is kept: more than k, so that ties with the k-th are in it
ROUNDING = 1e-5         # relative error that binary32 is allowed in a squared distance or a product
QUERY_BLOCK = 1024
GENERATED_QUERIES = 10000


@dataclasses.dataclass(frozen=True)
class AnnSet:
    name: str
    base: str      # below the data folder; "" for a generated set
    queries: str
    metric: str    # l2 or cosine


SETS = (
    AnnSet("sift", "sift-photos/base.u8bin", "sift-photos/query.u8bin", "l2"),
    AnnSet("glove", "glove-100/base.npy", "glove-100/query.npy", "cosine"),
    AnnSet("mixture", "", "", "l2"),
)


def by_name(name):
    """The set of a name; ValueError for an unknown one."""
    for candidate in SETS:
        if candidate.name == name:
            return candidate
    raise ValueError(f"unknown set '{name}'; known are: {', '.join(s.name for s in SETS)}")


def find_files(ann_set, folders):
    """The set's two files in the first folder that has both, or None."""
    for folder in folders:
        paths = pathlib.Path(folder) / ann_set.base, pathlib.Path(folder) / ann_set.queries
        if all(path.is_file() for path in paths):
            return paths
    return None


def generate(command, folder, rows, dims, intrinsic):
    """A Gaussian mixture as two .npy files; its last rows are the queries."""
    whole = pathlib.Path(folder) / "mixture.npy"
    subprocess.run([str(command), "generate", "mixture", "-o", str(whole), "--rows", str(rows + GENERATED_QUERIES),
                    "--dims", str(dims), "--intrinsic", str(intrinsic), "-q"], check=True)
    values = np.load(whole).astype(np.float32)
    paths = pathlib.Path(folder) / "mixture_base.npy", pathlib.Path(folder) / "mixture_query.npy"
    np.save(paths[0], values[:rows])
    np.save(paths[1], values[rows:])
    whole.unlink()
    return paths


def read(path, first=None):
    """The first rows of a file (all: None), in the type that they are stored in."""
    if path.suffix != ".u8bin":
        return np.load(path)[:first]
    rows, dims = np.fromfile(path, dtype="<u4", count=2)
    return np.fromfile(path, dtype=np.uint8, offset=8).reshape(int(rows), int(dims))[:first]


def for_libraries(values, metric):
    """Rows in binary32; of length 1 for cosine (a row of zeros stays as it is)."""
    values = values.astype(np.float64)
    if metric == "cosine":
        lengths = np.linalg.norm(values, axis=1, keepdims=True)
        values /= np.where(lengths > 0.0, lengths, 1.0)
    return np.ascontiguousarray(values, dtype=np.float32)


def digest(*arrays):
    """A short text that changes with the values, so that an answer is not taken for that of other data."""
    state = hashlib.blake2b(digest_size=8)
    for array in arrays:
        state.update(f"{array.dtype} {array.shape}".encode())
        state.update(np.ascontiguousarray(array))
    return state.hexdigest()


class Measure:
    """Distances in binary64, from values as they are stored; the same bits for the same two rows, whoever asks."""

    def __init__(self, base, queries, metric):
        self.base, self.queries, self.metric = base, queries, metric
        self.lengths = self._lengths(base), self._lengths(queries)

    def _lengths(self, rows):
        if self.metric != "cosine":
            return None
        return np.sqrt(np.einsum("ij,ij->i", rows, rows, dtype=np.float64))

    def distances(self, query, ids):
        """From one query to rows."""
        rows, point = self.base[ids].astype(np.float64), self.queries[query].astype(np.float64)
        if self.metric == "l2":
            rows -= point
            return np.sqrt(np.square(rows).sum(axis=1))
        scale = self.lengths[0][ids] * self.lengths[1][query]
        return np.where(scale > 0.0, 1.0 - (rows * point).sum(axis=1) / np.where(scale > 0.0, scale, 1.0), 1.0)

    def recall(self, kth, ids):
        """Share of answers (queries x k ids) that are no farther than the true k-th, each row counted once."""
        hits = 0
        for query, row in enumerate(np.asarray(ids)):
            row = np.unique(row[row >= 0])
            hits += int(np.count_nonzero(self.distances(query, row) <= kth[query]))
        return hits / np.asarray(ids).size


def _nearest_of(measure, query, ids):
    distances = measure.distances(query, ids)
    order = np.lexsort((ids, distances))[:KEPT]
    return ids[order], distances[order]


def exact_answer(measure, base, queries):
    """Ids and distances of the nearest rows, in the order of (distance, id). base, queries: rows for_libraries."""
    faiss.omp_set_num_threads(bench_machine.cores())
    index = faiss.IndexFlatL2(base.shape[1])
    index.add(base)
    largest = float(np.square(base, dtype=np.float64).sum(axis=1).max())
    count = min(CANDIDATES, len(base))
    ids = np.empty((len(queries), min(KEPT, len(base))), dtype=np.int64)
    distances = np.empty(ids.shape)
    compared = 0
    for begin in range(0, len(queries), QUERY_BLOCK):
        squares, found = index.search(queries[begin : begin + QUERY_BLOCK], count)
        for row in range(len(found)):
            query = begin + row
            error = ROUNDING * (largest + float(np.square(queries[query], dtype=np.float64).sum()))
            candidates = found[row]
            if count < len(base) and squares[row, -1] - squares[row, ids.shape[1] - 1] <= 2.0 * error:
                candidates = np.arange(len(base))
                compared += 1
            ids[query], distances[query] = _nearest_of(measure, query, candidates)
    return ids, distances, compared


def truth(path, measure, base, queries, k):
    """The answer kept in a file, made if it is not there; its k-th distances."""
    if not path.is_file():
        ids, distances, compared = exact_answer(measure, base, queries)
        if compared:
            print(f"  {compared} queries were compared with every row", flush=True)
        temporary = path.with_name(f".{path.stem}.tmp.npz")
        np.savez(temporary, ids=ids, distances=distances)
        temporary.replace(path)
    with np.load(path) as file:
        return file["distances"][:, k - 1].copy()
