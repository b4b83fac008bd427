#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times exact k nearest neighbours: Nearfield beside SciPy's cKDTree (every row's nearest others) and FAISS's IndexFlatL2
(queries of their own), each on all cores, on the same data in the same run, runs alternating. The table gives medians;
building the index is counted apart, and in `both`. All distances are compared with the other side's; of a sample of the
queries, every id and every bit of every distance with NumPy's brute force where sums are exact (whole numbers), and with
Nearfield's own comparison of all pairs."""
import argparse
import datetime
import json
import os
import pathlib
import statistics
import sys
import time

import faiss
import numpy
import scipy
from scipy.spatial import cKDTree

import bench_machine
import bench_sets
import nearfield_knn

ROOT = pathlib.Path(__file__).resolve().parent.parent
CASES = (("letter", 10), ("shuttle", 10), ("cities", 10), ("cities", 1), ("cities", 100), ("sift", 10))
SAMPLE = 256
TYPES = {"sift": numpy.uint8}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--library", default=ROOT / "build/release/libnearfield.so", type=pathlib.Path, help="libnearfield.so")
    add("--data", default=os.environ.get("NEARFIELD_DATA"), type=pathlib.Path, help="folder laid out as data/")
    add("--runs", type=int, default=5, help="runs of each side")
    add("--cases", default="", help="sets to take, such as letter,cities; default all")
    add("--out", type=pathlib.Path, help="write everything measured to this JSON file")
    return parser.parse_args()


def run_nearfield(library, data, queries, k):
    index, build = library.index(data)
    ids, distances, seconds, stats = library.search(index, queries, len(data if queries is None else queries), k)
    library.release(index)
    return ids, distances, build, seconds, stats


def run_scipy(data, k, threads):
    """A row is its own neighbour here: one more is asked for, and the nearest is dropped (its distance is 0, as is that of
    the row itself, whichever of them comes first)."""
    start = time.perf_counter()
    tree = cKDTree(data)
    build = time.perf_counter() - start
    start = time.perf_counter()
    distances, _ = tree.query(data, k=k + 1, workers=threads)
    return distances[:, 1:], build, time.perf_counter() - start


def run_faiss(data, queries, k):
    start = time.perf_counter()
    index = faiss.IndexFlatL2(data.shape[1])
    index.add(data)
    build = time.perf_counter() - start
    start = time.perf_counter()
    squares, _ = index.search(queries, k)
    return numpy.sqrt(squares.astype(numpy.float64)), build, time.perf_counter() - start


def differing_rows(library, data, queries, ids, distances, k):
    """Rows of a sample whose ids or distances are not those of brute force."""
    own = queries is None
    asked = data if own else queries
    sample = numpy.random.default_rng(1).choice(len(asked), min(SAMPLE, len(data) // 64 - 1), replace=False)
    got_ids, got, _, _ = library.knn(data, numpy.ascontiguousarray(asked[sample]), k + own)
    whole = data.dtype == numpy.uint8 or not (data % 1).any()
    wide, differ = data.astype(numpy.float64), 0
    for i, row in enumerate(sample):
        keep = got_ids[i] != row if own else numpy.ones(k, bool)
        same = (got_ids[i][keep][:k] == ids[row]).all() and (got[i][keep][:k] == distances[row]).all()
        if whole:
            exact = numpy.sqrt(((wide - asked[row].astype(numpy.float64))**2).sum(axis=1))
            if own:
                exact[row] = numpy.inf
            order = numpy.lexsort((numpy.arange(len(exact)), exact))[:k]
            same = same and (order == ids[row]).all() and (exact[order] == distances[row]).all()
        differ += not same
    return int(differ)


def measure(options, library, name, k):
    data_set = bench_sets.by_name(name)
    folders = [folder for folder in (options.data, ROOT / "data") if folder]
    path = bench_sets.find_file(data_set, folders)
    values, queries, threads = bench_sets.read(path), None, bench_machine.cores()
    data = values.astype(TYPES.get(name, numpy.float32))
    if name == "sift":
        queries = bench_sets.read(path.with_name("query.u8bin")).astype(numpy.uint8)
        narrow, narrow_queries = values.astype(numpy.float32), queries.astype(numpy.float32)
        faiss.omp_set_num_threads(threads)
    record = {"set": name, "rows": len(data), "dims": data.shape[1], "queries": len(data if queries is None else queries),
              "k": k, "peer": "scipy" if queries is None else "faiss",
              **{side + what: [] for side in ("nearfield", "peer") for what in ("_build", "_search")}}
    for _ in range(options.runs):
        ids, distances, build, seconds, record["stats"] = run_nearfield(library, data, queries, k)
        record["nearfield_build"].append(build)
        record["nearfield_search"].append(seconds)
        theirs, build, seconds = run_scipy(values, k, threads) if queries is None else run_faiss(narrow, narrow_queries, k)
        record["peer_build"].append(build)
        record["peer_search"].append(seconds)
    # binary32 of FAISS rounds sums of squares of this size only beyond 2^24
    record["largest_difference"] = float((abs(theirs - distances) / numpy.maximum(distances, 1e-300)).max())
    record["rows_that_differ"] = differing_rows(library, data, queries, ids, distances, k)
    return record


def print_row(record):
    ours, built, theirs, their_build = (statistics.median(record[key]) for key in
                                        ("nearfield_search", "nearfield_build", "peer_search", "peer_build"))
    print(f"| {record['set']} | {record['k']} | {record['queries']:,} | {record['peer']} | {their_build:.3f} | {theirs:.3f} | "
          f"{built:.3f} | {ours:.3f} | {theirs / ours:.1f} | {(theirs + their_build) / (ours + built):.1f} | "
          f"{record['stats']['compared'] / record['queries']:,.0f} | {record['largest_difference']:.1e} | "
          f"{record['rows_that_differ']} |", flush=True)


def main():
    options = parse_arguments()
    now = datetime.datetime.now(datetime.timezone.utc)
    library = nearfield_knn.Library(options.library)
    report = {"benchmark": "knn_peers", "date": now.isoformat(timespec="seconds"),
              "commit": bench_machine.commit(ROOT), "machine": bench_machine.describe(),
              "versions": {"numpy": numpy.__version__, "scipy": scipy.__version__, "faiss": faiss.__version__}, "results": []}
    print("| set | k | queries | peer | its build, s | its search, s | build, s | search, s | ratio | ratio of both | "
          "rows compared a query | largest relative difference | sampled rows that differ |\n"
          "|---|---|---|---|---|---|---|---|---|---|---|---|---|")
    for name, k in CASES:
        if options.cases and name not in options.cases.split(","):
            continue
        report["results"].append(measure(options, library, name, k))
        print_row(report["results"][-1])
        if options.out:
            options.out.write_text(json.dumps(report, indent=1) + "\n")
    return 1 if any(record["rows_that_differ"] for record in report["results"]) else 0


if __name__ == "__main__":
    sys.exit(main())
