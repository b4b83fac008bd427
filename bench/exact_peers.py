#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times exact self-joins: the command nearfield beside scikit-learn, SciPy and FAISS, for the same products.

Both sides alternate, on the same machine and in the same run; medians are printed with their ratio, and every pair in
which a peer's answer differs is counted. bench/README.md says what is compared and how to read the table."""
import argparse
import datetime
import gc
import json
import os
import pathlib
import platform
import statistics
import sys
import tempfile
import time

try:
    import faiss
    import numpy
    import scipy
    import sklearn
except ImportError as missing:
    sys.exit(
        f"exact_peers.py needs {missing.name}. To install what it needs, at the root of the source tree:\n"
        "  python3 -m venv build/bench && build/bench/bin/pip install -r bench/requirements.txt\n"
        "and run it with build/bench/bin/python bench/exact_peers.py"
    )

import bench_answers
import bench_machine
import bench_peers
import bench_sets

ROOT = pathlib.Path(__file__).resolve().parent.parent
PRODUCTS = {"csr": "CSR with distances", "pairs": "pairs i < j", "counts": "counts"}
QUICK_ROWS = 10000


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--nearfield", default=ROOT / "build/release/nearfield", type=pathlib.Path, help="the command")
    add("--data", type=pathlib.Path, help="folder laid out as data/ (default: NEARFIELD_DATA, then data/)")
    add("--sets", help="some of letter,shuttle,cities,sift,glove (default: all that are found)")
    add("--products", default="csr,pairs,counts", help="some of csr,pairs,counts")
    add("--peers", default="", help="only peers whose name holds this text, in any case")
    add("--rows", type=int, help="take the first rows only, of every set")
    add("--runs", type=int, default=5, help="runs of each side")
    add("--slow-runs", type=int, default=1, help="runs of a peer that takes more than --slow-seconds")
    add("--slow-seconds", type=float, default=60.0)
    add("--peer-limit", type=float, default=900.0, help="leave out a peer that a sample says takes longer (seconds)")
    add("--scratch", type=pathlib.Path, help="folder for the results that nearfield writes (default: TMPDIR)")
    add("--out", type=pathlib.Path, help="write everything measured to this JSON file")
    add("--quick", action="store_true", help=f"try the script: letter and cities, {QUICK_ROWS} rows, 2 runs")
    options = parser.parse_args()
    if options.quick:
        options.sets = options.sets or "letter,cities"
        options.rows = options.rows or QUICK_ROWS
        options.runs = min(options.runs, 2)
        options.peer_limit = min(options.peer_limit, 30.0)
    if options.runs < 1 or options.slow_runs < 1:
        parser.error("at least one run is needed")
    unknown = set(options.products.split(",")) - set(PRODUCTS)
    if unknown:
        parser.error(f"unknown product '{unknown.pop()}'; known are: {', '.join(PRODUCTS)}")
    if not os.access(options.nearfield, os.X_OK):
        parser.error(f"no command at {options.nearfield}; build it (./demo.sh does) or name it with --nearfield")
    return options


def describe(options):
    """What was run, where, when and with what."""
    return {
        "benchmark": "exact_peers",
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "commit": bench_machine.commit(ROOT),
        "command_line": sys.argv,
        "machine": bench_machine.describe(),
        "versions": {
            "python": platform.python_version(),
            "numpy": numpy.__version__,
            "scipy": scipy.__version__,
            "scikit-learn": sklearn.__version__,
            "faiss": faiss.__version__,
        },
        "complete": False,
        "results": [],
    }


def save(report, path):
    """Replaces the file; an interrupted benchmark leaves what was measured until then."""
    if path is None:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.tmp")
    temporary.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    temporary.replace(path)


# ---- measuring ----


def reason_to_skip(peer, pairs, limit):
    """Why a peer is left out, or None. Measures a sample."""
    needed = bench_peers.pairs_bytes(peer.product, pairs)
    if needed > bench_machine.memory_free():
        return f"needs about {needed >> 20:,} MiB of memory"
    expected = peer.expected_seconds()
    return f"would take about {expected:,.0f} s" if expected > limit else None


def time_peer(peer):
    """Seconds of one run, and its result."""
    gc.collect()
    start = time.perf_counter()
    result = peer.run()
    return time.perf_counter() - start, result


def wants_run(seconds, options):
    """Whether a peer with these times so far is to run again."""
    if not seconds:
        return True
    return len(seconds) < (options.slow_runs if max(seconds) > options.slow_seconds else options.runs)


def alternate(nearfield, product, peers, options, judge):
    """Runs nearfield and the peers in turn. judge(peer, result) is called once for each peer, outside of the times."""
    ours, theirs = [], {peer.name: [] for peer in peers}
    for _ in range(max(options.runs, options.slow_runs)):
        ours.append(nearfield.run(product))
        for peer in peers:
            seconds = theirs[peer.name]
            if not wants_run(seconds, options):
                continue
            taken, result = time_peer(peer)
            seconds.append(taken)
            if len(seconds) == 1:
                judge(peer, result)
            del result
    return ours, theirs


def middle_run(runs):
    """The run of median time (of two, the slower): its summary stands for all."""
    return sorted(runs, key=lambda run: run["seconds"])[len(runs) // 2]


def judge_of(nearfield, product, differences, right):
    """A function that compares a peer's answer with ours; FAISS's also by its own rule, which leaves ties out."""
    def judge(peer, result):
        answer = peer.answer(result)
        if product == "counts":
            differences[peer.name] = {"all": vars(bench_answers.compare_counts(right, answer))}
            return
        differences[peer.name] = {"all": vars(bench_answers.compare(right, answer))}
        if isinstance(peer, bench_peers.FaissRange):
            nearfield.run(product, "--strict")
            differences[peer.name]["strict"] = vars(bench_answers.compare(nearfield.answer(product), answer))

    return judge


def check_known(data_set, radius, options, keys):
    """Whether our answer is the published one; None where none is published."""
    known = bench_sets.KNOWN.get((data_set.name, radius)) if options.rows is None else None
    if known is None:
        return None
    return (len(keys), bench_answers.digest(keys)) == known


def measure_product(nearfield, product, peers, options, known):
    """All times of one product, as one record. known(keys) checks our answer."""
    first = nearfield.run(product)
    right = nearfield.answer(product)
    record = {"product": product, "pairs": first["pairs"], "ties": first["ties"], "peers": []}
    if product == "csr":
        record["answer_is_known"] = known(right)
    runnable, differences = [], {}
    for peer in peers:
        reason = reason_to_skip(peer, first["pairs"], options.peer_limit)
        if reason is None:
            runnable.append(peer)
        else:
            record["peers"].append({"peer": peer.name, "skipped": reason})
    judge = judge_of(nearfield, product, differences, right)
    record["nearfield"], theirs = alternate(nearfield, product, runnable, options, judge)
    median = statistics.median(run["seconds"] for run in record["nearfield"])
    whole = statistics.median(run["wall_seconds"] for run in record["nearfield"])
    record |= {"seconds": median, "wall_seconds": whole}
    for peer in runnable:
        seconds = statistics.median(theirs[peer.name])
        record["peers"].append({
            "peer": peer.name, "seconds": seconds, "runs": theirs[peer.name], "ratio": seconds / median,
            "whole_ratio": seconds / whole, "differs": differences[peer.name],
        })
    return record


def add_rates(record, machine):
    """What refine reached, held against what the machine's binary32 matrix product reaches."""
    run = middle_run(record["nearfield"])
    refine = run["steps"]["refine"]
    pairs = run["compared"] / refine if refine > 0.0 else 0.0
    record["refine_pair_rate"] = pairs
    record["refine_rate"] = 2.0 * run["dims"] * pairs
    record["refine_share_of_gemm"] = record["refine_rate"] / machine["gemm_rate"]
    record["peak_bytes"] = max(one["peak_bytes"] for one in record["nearfield"])


# ---- printing ----


def print_machine(report):
    machine, versions = report["machine"], report["versions"]
    print(f"{machine['cpu']}, {machine['cores']} cores, {machine['memory_bytes'] / 2**30:.0f} GiB; "
          f"{machine['system']}; load {machine['load_before']:.1f} before the start")
    print(", ".join(f"{name} {version}" for name, version in versions.items()))
    print(f"binary32 matrix product {machine['gemm_rate'] / 1e9:.0f} GFLOP/s, "
          f"copying {machine['copy_rate'] / 1e9:.1f} GB/s")


def print_head(record):
    run = middle_run(record["nearfield"])
    texts = {True: "; the published answer", False: "; NOT THE PUBLISHED ANSWER", None: ""}
    known = texts[record.get("answer_is_known")]
    print(f"\n{record['set']}, radius {record['radius']:g}, {PRODUCTS[record['product']]}: "
          f"{run['rows']:,} rows of {run['dims']}; {record['pairs']:,} pairs{known}; "
          f"{record['ties']:,} ordered pairs at exactly the radius")
    print(f"  nearfield: {run['isa']}, {run['candidates']}, {run['refine']}; median of {len(record['nearfield'])}: "
          f"{record['seconds']:.3f} s in memory, {record['wall_seconds']:.3f} s whole; "
          f"peak {record['peak_bytes'] / 2**20:.0f} MiB")
    print(f"  refine: {record['refine_pair_rate'] / 1e9:.2f} G pairs/s = {record['refine_rate'] / 1e9:.0f} GFLOP/s = "
          f"{record['refine_share_of_gemm']:.2f} of the matrix product")
    print(f"  {'peer':32}{'runs':>5}{'seconds':>10}{'ratio':>8}{'ratio, whole':>14}  pairs missing / false")


def print_peer(peer):
    if "skipped" in peer:
        print(f"  {peer['peer']:32}{'-':>5}  left out: {peer['skipped']}")
        return
    differs = peer["differs"]["all"]
    text = f"{differs['missing']:,} / {differs['false']:,}"
    if "strict" in peer["differs"]:
        strict = peer["differs"]["strict"]
        text += (f"; ties explain {differs['missing'] - strict['missing']:,}: by its own rule (<) "
                 f"{strict['missing']:,} / {strict['false']:,}")
    print(f"  {peer['peer']:32}{len(peer['runs']):>5}{peer['seconds']:>10.3f}{peer['ratio']:>8.1f}"
          f"{peer['whole_ratio']:>14.1f}  {text}")


def print_record(record):
    print_head(record)
    for peer in record["peers"]:
        print_peer(peer)
    sys.stdout.flush()


# ---- the whole ----


def chosen_sets(options):
    """Sets with their files; says which are not there."""
    folders = [options.data, os.environ.get("NEARFIELD_DATA"), ROOT / "data"]
    names = options.sets.split(",") if options.sets else [data_set.name for data_set in bench_sets.SETS]
    for name in names:
        data_set = bench_sets.by_name(name)
        file = bench_sets.find_file(data_set, [folder for folder in folders if folder])
        if file is None:
            print(f"{name}: left out, no {data_set.file} (--data or NEARFIELD_DATA names the folder)")
        else:
            yield data_set, file


def measure_set(data_set, file, options, report, scratch):
    data = bench_sets.read(file, options.rows)
    for radius in data_set.radii:
        nearfield = bench_peers.Nearfield(options.nearfield, file, radius, options.rows, scratch)
        peers = bench_peers.peers_of(data_set, data, radius)
        for product in options.products.split(","):
            wanted = [peer for peer in peers
                      if peer.product == product and options.peers.lower() in peer.name.lower()]
            if not wanted:
                continue
            record = measure_product(nearfield, product, wanted, options,
                                     lambda keys: check_known(data_set, radius, options, keys))
            record |= {"set": data_set.name, "radius": radius, "rows": len(data), "dims": data.shape[1]}
            add_rates(record, report["machine"])
            report["results"].append(record)
            print_record(record)
            save(report, options.out)


def main():
    options = parse_arguments()
    report = describe(options)
    report["machine"]["gemm_rate"] = bench_machine.gemm_rate()
    report["machine"]["copy_rate"] = bench_machine.copy_rate()
    print_machine(report)
    with tempfile.TemporaryDirectory(prefix="nearfield-bench-", dir=options.scratch) as scratch:
        for data_set, file in chosen_sets(options):
            measure_set(data_set, file, options, report, scratch)
    report["complete"] = True
    save(report, options.out)
    wrong = [r for r in report["results"] if r.get("answer_is_known") is False]
    return 1 if wrong or not report["results"] else 0


if __name__ == "__main__":
    sys.exit(main())
