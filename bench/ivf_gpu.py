#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures Nearfield's IVF-RaBitQ on a GPU: builds, searches at equal recall, the scan alone, brute force, and the machine.

Sets have the shapes of those of arXiv:2602.23999 and are generated on the GPU (ivf_gpu_sets.py has the formula). Every
measurement is written as soon as it is there. Needs PyTorch and NumPy, and libnearfield.so; the environment variable
NEARFIELD_MODULE_DIR names the folder of its module for GPUs."""
import argparse
import datetime
import json
import os
import pathlib
import platform
import subprocess
import sys

try:
    import torch
except ImportError:
    sys.exit("ivf_gpu.py needs PyTorch and NumPy")

import numpy

import bench_machine
import ivf_gpu_measure
import ivf_gpu_print
import ivf_gpu_sets
import nearfield_c

ROOT = pathlib.Path(__file__).resolve().parent.parent
SECTIONS = ("roofline", "build", "search", "latency", "scan", "floor", "paper")


def words(text):
    return tuple(text.split(","))


def numbers(text):
    return tuple(int(part) for part in text.split(","))


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--library", default=ROOT / "build/release/libnearfield.so", type=pathlib.Path, help="libnearfield.so")
    add("--engine", default="cuda", choices=("cuda", "cpu"))
    add("--device", choices=("cuda", "cpu"), help="of PyTorch (default: cuda where there is one)")
    add("--sets", type=words, default=tuple(ivf_gpu_sets.SHAPES), help=f"some of {','.join(ivf_gpu_sets.SHAPES)}")
    add("--sections", type=words, default=SECTIONS, help=f"some of {','.join(SECTIONS)}; with roofline, "
        "each search is held against it")
    add("--precisions", type=words, help="how queries are seen in the scan (default: all that the engine has)")
    add("--bits", type=numbers, default=(5,), help="of the indexes that are searched")
    add("--build-bits", type=numbers, default=(4,), help="of the indexes that the section build makes")
    add("--build-runs", type=int, default=1, help="builds of each index; the median counts")
    add("--lists", type=int, help="lists (default: by set)")
    add("--rows", type=int, help="cut every set to so many rows, and its lists likewise, to try the script")
    add("--queries", type=int, help="take so many queries")
    add("--seconds", type=float, default=1e9, help="time in all; what does not fit is left out")
    add("--commit", help="commit that was measured, where the source tree is not a repository")
    add("--merge", type=pathlib.Path, help="an earlier result, whose records are kept; tables show the newest")
    add("--out", type=pathlib.Path, help="write everything measured to this JSON file")
    add("--markdown", type=pathlib.Path, help="write the tables to this file, too")
    add("--print", type=pathlib.Path, metavar="FILE", help="print the tables of a result and measure nothing")
    options = parser.parse_args()
    check(parser, options)
    return options


def check(parser, options):
    """Fills what depends on something else, and refuses what cannot be."""
    gpu = options.engine == "cuda"
    options.device = options.device or ("cuda" if torch.cuda.is_available() else "cpu")
    options.precisions = options.precisions or (ivf_gpu_measure.GPU_PRECISIONS if gpu else ("auto",))
    for what, given, known in (("set", options.sets, ivf_gpu_sets.SHAPES), ("section", options.sections, SECTIONS),
                               ("precision", options.precisions, nearfield_c.PRECISIONS)):
        unknown = [name for name in given if name not in known]
        if unknown:
            parser.error(f"unknown {what} '{unknown[0]}'; known are: {', '.join(known)}")
    if options.build_runs < 1:
        parser.error("at least one build is needed")
    for name in ("rows", "queries"):
        value = getattr(options, name)
        if value is not None and value < ivf_gpu_sets.K:
            parser.error(f"--{name} is {value}; at least {ivf_gpu_sets.K} are needed")
    if options.print is None and not options.library.is_file():
        parser.error(f"no library at {options.library}; build it (./demo.sh does) or name it with --library")


def graphics_card():
    """Name, memory, driver and power limit, as nvidia-smi says."""
    try:
        done = subprocess.run(["nvidia-smi", "--query-gpu=name,memory.total,driver_version,power.limit",
                               "--format=csv,noheader"], capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def command_line():
    """The arguments, of paths only the names."""
    return [pathlib.Path(sys.argv[0]).name, *(pathlib.Path(word).name if os.sep in word else word for word in sys.argv[1:])]


def describe(options):
    """What is run, where, when and with what."""
    return {
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "commit": options.commit or bench_machine.commit(ROOT),
        "command_line": command_line(),
        "engine": options.engine,
        "machine": {**bench_machine.describe(), "gpu": graphics_card()},
        "versions": {"python": platform.python_version(), "numpy": numpy.__version__, "torch": torch.__version__,
                     "cuda": torch.version.cuda},
    }


def write(path, text):
    """Replaces a file; an interrupted benchmark leaves what was measured until then."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.tmp")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(path)


def load(path):
    return json.loads(path.read_text(encoding="utf-8"))


def measure(options):
    """Measures, and returns the report."""
    report = {"benchmark": "ivf_gpu", "complete": False, "runs": [], "sets": {}, "results": []}
    if options.merge is not None:
        report = load(options.merge) | {"complete": False}
    report["runs"].append(describe(options))
    report["sets"] |= {name: vars(ivf_gpu_sets.SHAPES[name]) for name in options.sets}

    def save():
        if options.out is not None:
            write(options.out, json.dumps(report, indent=1) + "\n")

    bench = ivf_gpu_measure.Bench(options, report, save)
    if "paper" in options.sections:
        bench.add("paper", source="arXiv:2602.23999", card="L40S", figures=ivf_gpu_print.PAPER)
    report["complete"] = ivf_gpu_measure.run(bench)
    save()
    return report


def main():
    options = parse_arguments()
    if options.print is not None:
        print(ivf_gpu_print.tables(load(options.print)))
        return 0
    report = measure(options)
    text = ivf_gpu_print.tables(report)
    print(text)
    if options.markdown is not None:
        write(options.markdown, text + "\n")
    return 0 if any("seconds" in record for record in report["results"]) else 1


if __name__ == "__main__":
    sys.exit(main())
