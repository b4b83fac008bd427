# SPDX-License-Identifier: Apache-2.0
"""The programs that are compared: other libraries, inside this process, and the command nearfield.

A peer offers run(), which is what is timed, and answer(), which turns the result into keys or counts (bench_answers.py)
and is not. Where a library has a choice, the faster one is taken and nothing that we need for the comparison alone is
charged to it. expected_seconds() measures a sample of the queries, so that hopeless runs can be left out."""
import json
import math
import pathlib
import subprocess
import sys
import time

import faiss
import numpy as np
import scipy.spatial
import sklearn.neighbors

import bench_answers
import bench_machine

SAMPLE = 1000
FAISS_QUERIES = 4096  # in one call: FAISS's own block, so that nothing is lost and results stay small


def _sample_of(data):
    return np.ascontiguousarray(data[:: max(1, len(data) // SAMPLE)])


def _seconds(work):
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result


class ScikitLearn:
    """Index and radius_neighbors_graph with distances: compressed sparse rows, not sorted inside a row."""
    product = "csr"

    def __init__(self, algorithm, data, radius):
        self.name = f"scikit-learn {algorithm}"
        self.data, self.radius = data, radius
        self.model = sklearn.neighbors.NearestNeighbors(radius=radius, algorithm=algorithm, n_jobs=-1)

    def run(self):
        return self.model.fit(self.data).radius_neighbors_graph(self.data, mode="distance")

    def expected_seconds(self):
        sample = _sample_of(self.data)
        fit, _ = _seconds(lambda: self.model.fit(self.data))
        query, _ = _seconds(lambda: self.model.radius_neighbors_graph(sample, mode="distance"))
        return fit + query * len(self.data) / len(sample)

    def answer(self, result):
        keys = bench_answers.keys_of_rows(result.indptr, result.indices)
        keys.sort()
        return keys


class ScipyPairs:
    """Tree and query_pairs as an array of pairs i < j. One thread: it has no parallel form."""
    product = "pairs"
    name = "SciPy cKDTree query_pairs"

    def __init__(self, data, radius):
        self.data, self.radius = data, radius

    def run(self):
        return scipy.spatial.cKDTree(self.data).query_pairs(self.radius, output_type="ndarray")

    def expected_seconds(self):
        sample = _sample_of(self.data)
        build, tree = _seconds(lambda: scipy.spatial.cKDTree(self.data))
        few = scipy.spatial.cKDTree(sample)
        query, _ = _seconds(lambda: few.query_ball_tree(tree, self.radius))
        return build + query * len(self.data) / len(sample) / 2

    def answer(self, result):
        keys = bench_answers.keys_of_pairs(result)
        keys.sort()
        return keys


class ScipyCounts:
    """Tree and query_ball_point, numbers only, on all cores."""
    product = "counts"
    name = "SciPy cKDTree query_ball_point"

    def __init__(self, data, radius):
        self.data, self.radius = data, radius

    def _count(self, tree, queries):
        return tree.query_ball_point(queries, self.radius, return_length=True, workers=-1)

    def run(self):
        return self._count(scipy.spatial.cKDTree(self.data), self.data)

    def expected_seconds(self):
        sample = _sample_of(self.data)
        build, tree = _seconds(lambda: scipy.spatial.cKDTree(self.data))
        query, _ = _seconds(lambda: self._count(tree, sample))
        return build + query * len(self.data) / len(sample)

    def answer(self, result):
        return result


class FaissRange:
    """IndexFlatL2.range_search, block after block of queries: pairs nearer than the radius (<), squared distances, not
    sorted inside a row. Roots, and joining the blocks to one matrix, are not charged."""
    product = "csr"
    name = "FAISS IndexFlatL2 range_search"

    def __init__(self, data, radius):
        self.data = data.astype(np.float32)
        self.square = float(np.float32(radius * radius))
        faiss.omp_set_num_threads(bench_machine.cores())

    def _index(self):
        index = faiss.IndexFlatL2(self.data.shape[1])
        index.add(self.data)
        return index

    def _search(self, index, queries):
        blocks = range(0, len(queries), FAISS_QUERIES)
        return [index.range_search(queries[begin : begin + FAISS_QUERIES], self.square) for begin in blocks]

    def run(self):
        return self._search(self._index(), self.data)

    def expected_seconds(self):
        sample = _sample_of(self.data)
        build, index = _seconds(self._index)
        query, _ = _seconds(lambda: self._search(index, sample))
        return build + query * len(self.data) / len(sample)

    def answer(self, result):
        parts = [
            bench_answers.keys_of_rows(limits, ids, block * FAISS_QUERIES)
            for block, (limits, _, ids) in enumerate(result)
        ]
        keys = np.concatenate(parts)
        keys.sort()
        return keys


def peers_of(data_set, data, radius):
    """All peers for a set."""
    peers = [ScikitLearn(algorithm, data, radius) for algorithm in ("kd_tree", "ball_tree", "brute")]
    if data_set.many_dims:
        peers.append(FaissRange(data, radius))
    peers.append(ScipyPairs(data, radius))
    if not data_set.many_dims:
        peers.append(ScipyCounts(data, radius))
    return peers


class Nearfield:
    """The command on a file, in a process of its own."""
    PRODUCTS = {
        "csr": (".npz", ["--self"]),
        "pairs": (".npy", ["--half", "--distances", "none"]),
        "counts": (".npy", ["--self", "--counts"]),
    }

    def __init__(self, command, file, radius, first, scratch):
        self.command, self.file, self.radius = command, file, radius
        self.first, self.scratch = first, pathlib.Path(scratch)

    def arguments(self, product, *more):
        suffix, options = self.PRODUCTS[product]
        rows = [] if self.first is None else ["--rows", f"0:{self.first}"]
        return [
            str(self.command), "join", str(self.file), "--radius", repr(self.radius), *rows, *options, *more,
            "-q", f"--json={self.scratch / 'summary.json'}", "-o", str(self.scratch / f"answer{suffix}"),
        ]

    def run(self, product, *more):
        """Runs the command; its summary, with wall time and memory of the whole process."""
        usage_file = self.scratch / "usage.json"
        launch = [sys.executable, "-I", str(pathlib.Path(__file__).with_name("bench_launch.py")), str(usage_file)]
        subprocess.run(launch + self.arguments(product, *more), check=True)
        usage = json.loads(usage_file.read_text(encoding="utf-8"))
        if usage["exit"] != 0:
            raise RuntimeError(f"exit code {usage['exit']}: {' '.join(self.arguments(product, *more))}")
        summary = json.loads((self.scratch / "summary.json").read_text(encoding="utf-8"))
        summary["output"] = pathlib.Path(summary["output"]).name  # the scratch folder is nobody's business
        return summary | {"wall_seconds": usage["seconds"], "peak_bytes": usage["peak"]}

    def answer(self, product):
        """Keys or counts of the last run of a product."""
        path = self.scratch / f"answer{self.PRODUCTS[product][0]}"
        if product == "csr":
            with np.load(path) as file:
                return bench_answers.keys_of_rows(file["indptr"], file["indices"])
        values = np.load(path)
        return values if product == "counts" else bench_answers.keys_of_pairs(values)


def pairs_bytes(product, pairs):
    """Memory that a library in this process may need for that many pairs, generously: ids, distances, and a copy."""
    return 0 if product == "counts" else math.ceil(pairs * (48 if product == "csr" else 32))
