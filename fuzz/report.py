#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Adds up logs of run.sh and prints the table of docs/fuzzing.md: report.py OUT [OUT...]."""
import collections
import pathlib
import re
import sys

rows = collections.defaultdict(lambda: {"cpu": 0.0, "runs": 0, "execs": 0, "edges": 0, "found": 0})
for out in sys.argv[1:]:
    for log in pathlib.Path(out).glob("logs/*.log"):
        text = log.read_text(errors="replace")
        cpu = re.findall(r"^cpu seconds: ([\d.]+) ([\d.]+)", text, re.M)
        if not cpu:  # still running, or killed: it does not count
            continue
        row = rows[log.name.split(".")[0]]
        row["runs"] += 1
        row["cpu"] += sum(map(float, cpu[-1]))
        row["execs"] += sum(map(int, re.findall(r"stat::number_of_executed_units: (\d+)", text)))
        row["edges"] = max([row["edges"]] + [int(cov) for cov in re.findall(r"^#\d+.*? cov: (\d+)", text, re.M)])
        row["found"] += len(re.findall(r"Test unit written to", text))

print("| target | processor hours | runs of the target | edges | inputs that failed |")
print("|---|---|---|---|---|")
for name in sorted(rows):
    row = rows[name]
    print(f"| `fuzz_{name}` | {row['cpu'] / 3600:.2f} | {row['execs']:,} | {row['edges']:,} | {row['found']} |")
