#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times approximate neighbours at equal recall: the command nearfield beside FAISS, RaBitQ-Library, hnswlib, usearch.

Every family of indexes is tuned by one and the same rule, then Nearfield and the tuned peers alternate; medians of the
rate at one recall are printed with their ratio. bench/README.md says what is compared and how to read the table."""
import argparse
import datetime
import importlib.metadata
import json
import os
import pathlib
import platform
import sys
import tempfile

try:
    import ann_contenders
    import ann_curve
    import ann_sets
    import ann_table
except ImportError as missing:
    sys.exit(
        f"ann_peers.py needs {missing.name}. To install what it needs, at the root of the source tree:\n"
        "  python3 -m venv build/bench && build/bench/bin/pip install -r bench/requirements.txt\n"
        "and run it with build/bench/bin/python bench/ann_peers.py"
    )

import numpy as np

import bench_machine

ROOT = pathlib.Path(__file__).resolve().parent.parent
PACKAGES = ("numpy", "faiss-cpu", "rabitqlib", "hnswlib", "usearch")
NEARFIELD = "Nearfield"
BITS = (5, 6, 7, 8)
ENOUGH = 0.04  # recall above the target at which a sweep ends
QUICK_ROWS = 20000
QUICK_QUERIES = 500


def numbers(text):
    """ "512,1024" as a tuple."""
    return tuple(int(part) for part in text.split(","))


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--nearfield", default=ROOT / "build/release/nearfield", type=pathlib.Path, help="the command")
    add("--data", type=pathlib.Path, help="folder laid out as data/ (default: NEARFIELD_DATA, then data/)")
    add("--sets", default="sift,glove", help="some of sift,glove,mixture; mixture is generated")
    add("--mixture", type=numbers, default=(1000000, 128, 16), metavar="ROWS,DIMS,INTRINSIC", help="of the set mixture")
    add("--peers", default="", help="only families whose name holds one of these texts, in any case; commas between")
    add("--lists", type=numbers, help="lists that every family is tried with (default: about 2 and 4 sqrt(rows))")
    add("--bits", type=numbers, help=f"bits that every RaBitQ family is tried with (default: {BITS})")
    add("-k", type=int, default=10)
    add("--target", type=float, default=0.95, help="the recall at which rates are compared")
    add("--rows", type=int, help="take the first rows only, of every set")
    add("--queries", type=int, help="take the first queries only")
    add("--singles", type=int, default=2000, help="queries that are asked one by one")
    add("--runs", type=int, default=5, help="runs of each side")
    add("--tune-runs", type=int, default=2, help="runs of each configuration while tuning; the best counts")
    add("--scratch", type=pathlib.Path, help="folder for indexes and right answers (default: TMPDIR); answers stay")
    add("--out", type=pathlib.Path, help="write everything measured to this JSON file")
    add("--quick", action="store_true", help=f"try the script: {QUICK_ROWS} rows, {QUICK_QUERIES} queries, 2 runs")
    options = parser.parse_args()
    if options.quick:
        options.rows, options.queries = options.rows or QUICK_ROWS, options.queries or QUICK_QUERIES
        options.runs, options.tune_runs, options.bits = min(options.runs, 2), 1, options.bits or (6,)
    options.bits = options.bits or BITS
    if not 1 <= options.k <= ann_sets.KEPT:
        parser.error(f"-k is {options.k}; the right answers are kept for 1 to {ann_sets.KEPT}")
    if options.runs < 1 or options.tune_runs < 1:
        parser.error("at least one run is needed")
    if not 0.0 < options.target < 1.0:
        parser.error(f"--target is {options.target:g}; a recall between 0 and 1 is needed")
    if not os.access(options.nearfield, os.X_OK):
        parser.error(f"no command at {options.nearfield}; build it (./demo.sh does) or name it with --nearfield")
    return options


def describe(options):
    """What was run, where, when and with what."""
    versions = {"python": platform.python_version()}
    return {
        "benchmark": "ann_peers",
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "commit": bench_machine.commit(ROOT),
        "arguments": {"bits": options.bits, "runs": options.runs, "tune_runs": options.tune_runs, "k": options.k,
                      "target": options.target, "singles": options.singles},
        "machine": bench_machine.describe(),
        "versions": versions | {package: importlib.metadata.version(package) for package in PACKAGES},
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


def say(text):
    print(text, flush=True)


# ---- tuning: one configuration of each family for each mode ----


def recalls(contender, target):
    """Recall by effort, up to clearly more than the target, or to where more effort no longer helps."""
    points = []
    for effort in contender.efforts:
        points.append({"effort": effort, "recall": contender.recall(effort)})
        flat = len(points) > 3 and points[-1]["recall"] - points[-4]["recall"] < 1e-3
        if points[-1]["recall"] >= min(target + ENOUGH, 0.5 + target / 2) or flat:
            break
    return points


def best_rates(contender, efforts, mode, runs):
    """Each effort's best rate of some runs."""
    tries = [contender.rates(efforts, mode) for _ in range(runs)]
    return {effort: max(one[effort]["qps"] for one in tries) for effort in efforts}


def try_out(contender, modes, options, cores):
    """Builds a configuration and measures it in short."""
    build = contender.build(cores)
    points = recalls(contender, options.target)
    record = {"configuration": contender.name, "build_seconds": build, "bytes": contender.bytes(),
              "most_recall": max(point["recall"] for point in points), "points": points, "qps": {}}
    efforts = ann_curve.bracket(points, options.target)
    for mode in modes if efforts else []:
        rates = best_rates(contender, efforts, mode, options.tune_runs)
        curve = [point | {"qps": rates[point["effort"]]} for point in points if point["effort"] in rates]
        record["qps"][mode.name] = ann_curve.at_recall(curve, options.target)
    rates = "; ".join(f"{name} {qps:,.0f}/s" for name, qps in record["qps"].items())
    say(f"  {contender.family}, {contender.name}: build {build:.1f} s, {record['bytes'] / 1e6:.1f} MB, "
        f"recall up to {record['most_recall']:.4f}; {rates or 'less than asked for'}")
    return record


def tune(makers, modes, options, cores):
    """The best contender of a family for each mode, with its record, and the records of all."""
    best, records = {}, []
    for make in makers:
        contender = make()
        try:
            record = try_out(contender, modes, options, cores)
        except (RuntimeError, ValueError, MemoryError) as refused:
            if contender.family == NEARFIELD:
                raise
            record = {"configuration": contender.name, "most_recall": 0.0, "qps": {}, "error": str(refused)[:300]}
            say(f"  {contender.family}, {contender.name}: left out, {record['error']}")
        records.append(record)
        dropped = [contender]
        for name, qps in record["qps"].items():
            if name not in best or qps > best[name][1]["qps"][name]:
                dropped.extend([best[name][0]] if name in best else [])
                best[name] = (contender, record)
        kept = [id(held) for held, _ in best.values()]
        for one in dropped:
            if id(one) not in kept:
                one.drop()
    return best, records


# ---- measuring ----


def alternate(chosen, mode, options):
    """Runs of all contenders in turn. chosen: family -> (contender, record)."""
    runs = {family: [] for family in chosen}
    for _ in range(options.runs):
        for family, (contender, record) in chosen.items():
            efforts = ann_curve.bracket(record["points"], options.target)
            runs[family].append(contender.rates(efforts, mode))
    return runs


def measure_mode(tuned, mode, options):
    """Medians of one mode, Nearfield first."""
    chosen = {family: best[mode.name] for family, best in tuned.items() if mode.name in best}
    result = {"mode": mode.name, "contenders": []}
    for family, runs in alternate(chosen, mode, options).items():
        contender, record = chosen[family]
        rates = [{effort: one["qps"] for effort, one in run.items()} for run in runs]
        points = ann_curve.medians(record["points"], rates)
        result["contenders"].append({
            "family": family, "configuration": contender.name, "build_seconds": record["build_seconds"],
            "bytes": record["bytes"], "qps": ann_curve.at_recall(points, options.target), "points": points,
            "runs": [[{"effort": effort} | one for effort, one in run.items()] for run in runs],
        })
    ours = [one["qps"] for one in result["contenders"] if one["family"] == NEARFIELD]
    for one in result["contenders"]:
        one["microseconds"] = 1e6 / one["qps"]
        if mode.single:
            one["call_microseconds"] = chosen[one["family"]][0].call_microseconds()
        one["ratio"] = ours[0] / one["qps"] if ours else None
    return result


def wanted(family, options):
    texts = [text.strip().lower() for text in options.peers.split(",")]
    return family == NEARFIELD or any(text in family.lower() for text in texts)


def measure_set(task, options, record):
    """Adds to the record of a set: tuning, then the medians of every mode. Yields whenever there is more to save."""
    lists = options.lists or default_lists(len(task.base))
    modes = ann_contenders.modes(task.cores)
    families = ann_contenders.families(task, lists, options.bits)
    tuned = {}
    for family, makers in families.items():
        if wanted(family, options):
            tuned[family], record["tuning"][family] = tune(makers, modes, options, task.cores)
            yield
    isa = [contender.isa for contender, _ in tuned[NEARFIELD].values()]
    record["isa"] = isa[0] if isa else ""
    for mode in modes:
        record["modes"].append(measure_mode(tuned, mode, options))
        ann_table.print_mode(record, record["modes"][-1])
        yield
    for best in tuned.values():
        for contender, _ in best.values():
            contender.drop()


# ---- the whole ----


def default_lists(rows):
    """About 2 and 4 sqrt(rows), as powers of two."""
    power = 1 << max(0, round(np.log2(2.0 * np.sqrt(rows))))
    return (power, 2 * power)


def chosen_sets(options, scratch):
    """Sets with their files; says which are not there."""
    folders = [folder for folder in (options.data, os.environ.get("NEARFIELD_DATA"), ROOT / "data") if folder]
    for name in options.sets.split(","):
        ann_set = ann_sets.by_name(name)
        if ann_set.base:
            files = ann_sets.find_files(ann_set, folders)
        else:
            files = ann_sets.generate(options.nearfield, scratch, *options.mixture)
        if files is None:
            print(f"{name}: left out, no {ann_set.base} (--data or NEARFIELD_DATA names the folder)")
        else:
            yield ann_set, files


def files_for_command(base, queries, singles, scratch, name):
    """Base, queries and the first queries as .npy, in the type they are stored in: the same rows for both sides."""
    paths = [scratch / f"{name}_{what}.npy" for what in ("base", "queries", "singles")]
    for path, rows in zip(paths, (base, queries, queries[:singles])):
        np.save(path, rows)
    return tuple(paths)


def make_task(ann_set, files, options, scratch):
    """Reads a set and finds its right answers."""
    base, queries = ann_sets.read(files[0], options.rows), ann_sets.read(files[1], options.queries)
    singles = min(options.singles, len(queries))
    rows, points = ann_sets.for_libraries(base, ann_set.metric), ann_sets.for_libraries(queries, ann_set.metric)
    measure = ann_sets.Measure(base, queries, ann_set.metric)
    say(f"\n{ann_set.name}: {len(base):,} rows of {base.shape[1]}, {len(queries):,} queries, {ann_set.metric}; "
        "the right answer")
    path = (options.scratch or scratch) / f"truth_{ann_set.name}_{ann_sets.digest(base, queries)}.npz"
    kth = ann_sets.truth(path, measure, rows, points, options.k)
    first = scratch / "truth_singles.npz"
    with np.load(path) as file:
        np.savez(first, ids=file["ids"][:singles], distances=file["distances"][:singles])
    paths = files_for_command(base, queries, singles, scratch, ann_set.name)
    return ann_contenders.Task(ann_set.metric, options.k, bench_machine.cores(), rows, points, singles, measure, kth,
                               paths, (path, first), scratch, options.nearfield)


def main():
    options = parse_arguments()
    report = describe(options)
    ann_table.print_machine(report)
    with tempfile.TemporaryDirectory(prefix="nearfield-bench-", dir=options.scratch) as folder:
        scratch = pathlib.Path(folder)
        for ann_set, files in chosen_sets(options, scratch):
            task = make_task(ann_set, files, options, scratch)
            record = {"set": ann_set.name, "metric": ann_set.metric, "rows": len(task.base), "tuning": {}, "modes": [],
                      "dims": task.base.shape[1], "queries": len(task.queries), "k": options.k,
                      "target": options.target}
            report["results"].append(record)
            for _ in measure_set(task, options, record):
                save(report, options.out)
    report["complete"] = True
    save(report, options.out)
    return 0 if report["results"] else 1


if __name__ == "__main__":
    sys.exit(main())
