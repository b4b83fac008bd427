#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times DBSCAN: the command nearfield beside scikit-learn (all cores), on the same data in the same run, runs alternating.
Every label is compared. The table gives medians: scikit-learn's is its fit on an array that is there already; of
Nearfield `in memory` is index and clustering, `whole` the process from start to end, with its peak of memory."""
import argparse
import datetime
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import numpy
import sklearn
from sklearn.cluster import DBSCAN

import bench_machine
import bench_sets

ROOT = pathlib.Path(__file__).resolve().parent.parent
CASES = (("letter", 3.0, 5), ("letter", 5.0, 10), ("shuttle", 4.0, 5), ("shuttle", 8.0, 10), ("cities", 15.0, 5),
         ("cities", 50.0, 20), ("cities", 50.0, 100))


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--nearfield", default=ROOT / "build/release/nearfield", type=pathlib.Path, help="the command")
    add("--data", default=os.environ.get("NEARFIELD_DATA"), type=pathlib.Path, help="folder laid out as data/")
    add("--runs", type=int, default=5, help="runs of each side")
    add("--slow-runs", type=int, default=1, help="runs of scikit-learn where one takes more than ten seconds")
    add("--out", type=pathlib.Path, help="write everything measured to this JSON file")
    return parser.parse_args()


def run_nearfield(options, path, radius, samples, scratch):
    """Labels, seconds in memory and of the whole process, peak bytes."""
    said, labels, usage = scratch / "said.json", scratch / "labels.npy", scratch / "usage.json"
    command = [sys.executable, str(ROOT / "bench/bench_launch.py"), str(usage), str(options.nearfield), "dbscan", str(path),
               "--radius", str(radius), "--min-samples", str(samples), "-o", str(labels), f"--json={said}", "--quiet"]
    subprocess.run(command, check=True)
    used = json.loads(usage.read_text())
    if used["exit"] != 0:
        raise SystemExit(f"nearfield ended with {used['exit']}")
    return numpy.load(labels), json.loads(said.read_text())["seconds"], used["seconds"], used["peak"]


def run_sklearn(data, radius, samples):
    start = time.perf_counter()
    labels = DBSCAN(eps=radius, min_samples=samples, n_jobs=-1).fit(data).labels_
    return labels, time.perf_counter() - start


def measure(options, name, radius, samples, scratch):
    data_set = bench_sets.by_name(name)
    path = bench_sets.find_file(data_set, [folder for folder in (options.data, ROOT / "data") if folder])
    data = bench_sets.read(path)
    ours, theirs, differ, peak, whole = [], [], 0, 0, []
    for run in range(options.runs):
        labels, seconds, process, used = run_nearfield(options, path, radius, samples, scratch)
        ours.append(seconds)
        whole.append(process)
        peak = max(peak, used)
        if run < (options.slow_runs if theirs and theirs[0] > 10 else options.runs):
            expected, seconds = run_sklearn(data, radius, samples)
            theirs.append(seconds)
            differ = max(differ, int((labels != expected).sum()))
    return {"set": name, "rows": len(data), "dims": data.shape[1], "radius": radius, "min_samples": samples,
            "clusters": int(expected.max()) + 1, "noise": int((expected < 0).sum()), "labels_that_differ": differ,
            "nearfield": ours, "nearfield_whole": whole, "nearfield_peak": peak, "sklearn": theirs}


def print_row(record):
    ours, whole, theirs = (statistics.median(record[key]) for key in ("nearfield", "nearfield_whole", "sklearn"))
    peak = record["nearfield_peak"] / 2**20
    print(f"| {record['set']} | {record['radius']:g} | {record['min_samples']} | {record['clusters']:,} | {theirs:.3f} | "
          f"{ours:.3f} | {theirs / ours:.1f} | {whole:.3f} | {theirs / whole:.1f} | {peak:.0f} | "
          f"{record['labels_that_differ']} |", flush=True)


def main():
    options = parse_arguments()
    now = datetime.datetime.now(datetime.timezone.utc)
    report = {"benchmark": "dbscan_peers", "date": now.isoformat(timespec="seconds"),
              "commit": bench_machine.commit(ROOT), "machine": bench_machine.describe(),
              "versions": {"numpy": numpy.__version__, "scikit-learn": sklearn.__version__}, "results": []}
    print("| set | radius | min samples | clusters | scikit-learn, s | in memory, s | ratio | whole, s | ratio | peak, MiB | "
          "labels that differ |\n|---|---|---|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory(prefix="nearfield-bench-") as scratch:
        for case in CASES:
            report["results"].append(measure(options, *case, pathlib.Path(scratch)))
            print_row(report["results"][-1])
            if options.out:
                options.out.write_text(json.dumps(report, indent=1) + "\n")
    return 1 if any(record["labels_that_differ"] for record in report["results"]) else 0


if __name__ == "__main__":
    sys.exit(main())
