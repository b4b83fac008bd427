#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints a result of ann_peers.py as the Markdown table of the README: ann_table.py FILE.json.

Needs nothing but Python."""
import json
import pathlib
import sys


def print_machine(report):
    machine = report["machine"]
    print(f"{machine['cpu']}, {machine['cores']} cores, {machine['memory_bytes'] / 2**30:.0f} GiB; "
          f"{machine['system']}; load {machine['load_before']:.1f} before the start")
    print(", ".join(f"{name} {version}" for name, version in report["versions"].items()), flush=True)


def why_not(record, family):
    """Why a family has no rate: what it reached, or what the library said."""
    tried = record["tuning"][family]
    if all("error" in one for one in tried):
        return f"left out: {tried[0]['error'].splitlines()[0]}"
    return f"does not reach that recall (at most {max(one['most_recall'] for one in tried):.3f})"


def not_reached(record, mode):
    """Families that have no configuration with the recall that is asked for."""
    measured = {one["family"] for one in mode["contenders"]}
    return [family for family in record["tuning"] if family not in measured]


def print_mode(record, mode):
    """A table for people, while the benchmark runs."""
    print(f"\n{record['set']} ({record['metric']}, {record['rows']:,} x {record['dims']}), {mode['mode']}, "
          f"recall@{record['k']} {record['target']:g}; Nearfield on {record['isa']}")
    print(f"  {'':34}{'QPS':>9}{'us/query':>10}{'ratio':>7}{'MB':>8}{'build, s':>10}  configuration")
    for one in mode["contenders"]:
        ratio = "-" if one["ratio"] is None else f"{one['ratio']:.2f}"
        print(f"  {one['family']:34}{one['qps']:>9,.0f}{one['microseconds']:>10,.1f}{ratio:>7}"
              f"{one['bytes'] / 1e6:>8.1f}{one['build_seconds']:>10.1f}  {one['configuration']}")
    calls = [f"{one['family']} {one['call_microseconds']:.0f}" for one in mode["contenders"]
             if one.get("call_microseconds")]
    if calls:
        print(f"  us of an empty call from Python: {', '.join(calls)}")
    for family in not_reached(record, mode):
        print(f"  {family:34}{why_not(record, family)}")
    sys.stdout.flush()


def rows_of(record, mode):
    """Lines of the Markdown table."""
    head = f"| {record['set']}, {record['metric']} | {mode['mode']} |"
    for one in mode["contenders"]:
        ratio = "-" if one["ratio"] is None else f"{one['ratio']:.2f}"
        yield (f"{head} {one['family']} | {one['configuration'] or '-'} | {one['qps']:,.0f} | "
               f"{one['microseconds']:.0f} | {ratio} | {one['bytes'] / 1e6:.0f} | {one['build_seconds']:.0f} |")
    for family in not_reached(record, mode):
        yield f"{head} {family} | {why_not(record, family)} | - | - | - | - | - |"


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: ann_table.py FILE.json")
    report = json.loads(pathlib.Path(sys.argv[1]).read_text(encoding="utf-8"))
    machine, results = report["machine"], report["results"]
    isa = results[0].get("isa", "-") if results else "-"
    asked = report["arguments"]
    print(f"{machine['cpu']}, {machine['cores']} cores, {isa}; {report['date'][:10]}; "
          f"recall@{asked['k']} {asked['target']:g}\n")
    print("| set | mode | index | configuration | QPS | us per query | Nearfield's QPS / its | MB | build, s |")
    print("|---|---|---|---|---|---|---|---|---|")
    for record in results:
        for mode in record["modes"]:
            for row in rows_of(record, mode):
                print(row)


if __name__ == "__main__":
    main()
