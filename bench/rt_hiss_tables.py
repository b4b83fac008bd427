#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures Nearfield's CUDA engine as RT-HiSS (arXiv:2609.01975) is measured: Tables II to VII and Figures 6 to 10.

Data have the rows and dims of the paper's sets and are generated; radii are found for the paper's selectivities, on the
machine itself. Every result is written as soon as it is there. bench/README.md says what is compared."""
import argparse
import datetime
import json
import os
import pathlib
import platform
import subprocess
import sys
import tempfile

import numpy

import bench_machine
import rt_hiss_measure
import rt_hiss_print
import rt_hiss_program
import rt_hiss_sections
import rt_hiss_torch

ROOT = pathlib.Path(__file__).resolve().parent.parent


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--program", default=ROOT / "build/release/bench_radius", type=pathlib.Path, help="bench_radius, compiled")
    add("--engine", default="cuda")
    add("--sections", default=",".join(rt_hiss_sections.SECTIONS), help="in this order (default: all)")
    add("--sets", help="only these sets")
    add("--seconds", type=float, default=1e9, help="time in all; what does not fit is left out")
    add("--rows", type=int, help="cut every set to so many rows, to try the script")
    add("--profile-rows", type=int, default=400_000, help="rows under the profiler")
    add("--card-memory", default="16G", help="device memory for Figure 9 and Table III")
    add("--host-bytes", type=float, default=60e9, help="results that need more are delivered in batches")
    add("--gds", type=lambda path: pathlib.Path(path).resolve(), help="folder with gds_join_DIMS")
    add("--scratch", type=pathlib.Path, default=tempfile.gettempdir(), help="folder for the data's values")
    add("--commit", help="commit that was measured, where the source tree is not a repository")
    add("--merge", type=pathlib.Path, help="an earlier result: its radii are used, its records kept")
    add("--out", type=pathlib.Path, help="write everything measured to this JSON file")
    add("--markdown", type=pathlib.Path, help="write the tables to this file, too")
    add("--print", type=pathlib.Path, metavar="FILE", help="print the tables of a result and measure nothing")
    options = parser.parse_args()
    unknown = [name for name in options.sections.split(",") if name not in rt_hiss_sections.SECTIONS]
    if unknown:
        parser.error(f"unknown section '{unknown[0]}'; known are: {', '.join(rt_hiss_sections.SECTIONS)}")
    if options.print is None and not os.access(options.program, os.X_OK):
        parser.error(f"no program at {options.program}; see bench/README.md")
    options.program = options.program.resolve()
    return options


def graphics_card():
    """Name, memory and driver, as nvidia-smi says."""
    try:
        done = subprocess.run(["nvidia-smi", "--query-gpu=name,memory.total,driver_version,power.limit",
                               "--format=csv,noheader"], capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def describe(options):
    """What is run, where, when and with what."""
    return {
        "benchmark": "rt_hiss_tables",
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "commit": options.commit or bench_machine.commit(ROOT),
        "command_line": sys.argv,
        "machine": {**bench_machine.describe(), "gpu": graphics_card()},
        "versions": {"python": platform.python_version(), "numpy": numpy.__version__, "torch": rt_hiss_torch.version()},
        "complete": False,
        "radii": {},
        "results": [],
    }


def write(path, text):
    """Replaces a file; an interrupted benchmark leaves what was measured until then."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.tmp")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(path)


def measure(options, report):
    """Runs the sections. What fails in one is recorded and does not stop the next."""
    def save():
        if options.out is not None:
            write(options.out, json.dumps(report, indent=1) + "\n")

    bench = rt_hiss_measure.Bench(options, report, save)
    for name in options.sections.split(","):
        try:
            rt_hiss_sections.SECTIONS[name](bench)
        except rt_hiss_measure.OutOfTime:
            bench.add(name, left_out="no time was left")
            return False
        except (rt_hiss_program.Failed, RuntimeError, OSError) as error:  # RuntimeError: PyTorch's, out of memory too
            bench.add(name, failed=str(error)[:300])
            rt_hiss_torch.forget()
    report["complete"] = True
    save()
    return True


def main():
    options = parse_arguments()
    if options.print is not None:
        print(rt_hiss_print.tables(rt_hiss_measure.load_report(options.print)))
        return 0
    report = describe(options)
    if options.merge is not None:
        earlier = rt_hiss_measure.load_report(options.merge)
        report["radii"], report["results"] = earlier["radii"], earlier["results"]
        before = {name: earlier[name] for name in ("date", "commit", "command_line", "machine")}
        report["earlier"] = [*earlier.get("earlier", []), before]
    measure(options, report)
    text = rt_hiss_print.tables(report)
    print(text)
    if options.markdown is not None:
        write(options.markdown, text + "\n")
    measured = [record for record in report["results"] if "seconds" in record or "flops" in record]
    return 0 if measured else 1


if __name__ == "__main__":
    sys.exit(main())
