#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints a result of exact_peers.py as the Markdown table of the README: bench_table.py FILE.json.

Of each library the fastest algorithm that was run stands for it. Needs nothing but Python."""
import json
import pathlib
import sys

PRODUCTS = {"csr": "CSR with distances", "pairs": "pairs i < j", "counts": "counts"}


def library(name):
    """ "scikit-learn" of "scikit-learn kd_tree"."""
    return name.split()[0]


def fastest(peers):
    """The fastest peer of each library; a library of which none was run keeps the first, with its reason."""
    best = {}
    for peer in peers:
        held = best.get(library(peer["peer"]))
        if held is None or peer.get("seconds", float("inf")) < held.get("seconds", float("inf")):
            best[library(peer["peer"])] = peer
    return best.values()


def wrong(peer):
    """Pairs in which the peer's answer differs, and how many of them are ties that its rule leaves out."""
    differs = peer["differs"]["all"]
    count = differs["missing"] + differs["false"]
    if "strict" not in peer["differs"]:
        return f"{count:,}"
    strict = peer["differs"]["strict"]
    other = strict["missing"] + strict["false"]
    return f"{count:,}" if count == other else f"{count:,} ({other:,} by its rule, <)"


def row(record, peer):
    """One line of the table."""
    work = f"{record['set']}, {record['radius']:g} | {PRODUCTS[record['product']]} | {record['pairs']:,}"
    if "skipped" in peer:
        return f"| {work} | {peer['peer']} | {peer['skipped']} | {record['seconds']:.3g} | - | - | - |"
    return (f"| {work} | {peer['peer']} | {peer['seconds']:.3g} | {record['seconds']:.3g} | {peer['ratio']:.1f} | "
            f"{peer['whole_ratio']:.1f} | {wrong(peer)} |")


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: bench_table.py FILE.json")
    report = json.loads(pathlib.Path(sys.argv[1]).read_text(encoding="utf-8"))
    machine = report["machine"]
    isa = report["results"][0]["nearfield"][0]["isa"] if report["results"] else "-"
    print(f"{machine['cpu']}, {machine['cores']} cores, {isa}; {report['date'][:10]}\n")
    print("| set, radius | product | pairs | peer | peer, s | Nearfield, s | ratio | ratio, whole | wrong pairs of peer |")
    print("|---|---|---|---|---|---|---|---|---|")
    for record in report["results"]:
        for peer in fastest(record["peers"]):
            print(row(record, peer))


if __name__ == "__main__":
    main()
