# SPDX-License-Identifier: Apache-2.0
"""Prints a result of rt_hiss_tables.py as Markdown tables, the paper's numbers beside ours."""
import math

import rt_hiss_paper as paper

LEVEL_NAMES = {"s": "2^8", "m": "2^10", "l": "2^12"}
STEPS = ("select_dims", "group", "order", "first_intersection_test", "plan_batches", "list_hits", "refine", "compress",
         "deliver")


def number(value, digits=3):
    """Three digits, without exponents where that is readable; "-" for nothing."""
    if value is None:
        return "-"
    if value == 0 or abs(value) >= 1e9:
        return f"{value:.{digits}g}"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.{max(digits - 1 - math.floor(math.log10(abs(value))), 0)}f}"


def percent(value):
    return "-" if value is None else f"{100.0 * value:.1f} %"


def seconds(record):
    """A record's time, or why there is none."""
    if record is None:
        return "-"
    if "seconds" in record:
        return number(record["seconds"])
    return (record.get("failed") or "-")[:60].replace("|", "/").replace("\n", " ")


def table(title, head, rows, notes=""):
    """One Markdown table; nothing where there are no rows."""
    if not rows:
        return ""
    lines = [f"### {title}", "", "| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines) + "\n" + (f"\n{notes}\n" if notes else "")


class Results:
    """The records of a report, looked up. The newest counts, but one that failed never hides one that did not."""

    def __init__(self, report):
        self.records = sorted(report["results"], key=lambda record: "seconds" in record or "flops" in record)

    def all(self, section, **wanted):
        found = {}
        for record in self.records:
            if record["section"] != section or "set" not in record:
                continue
            if all(record.get(name) == value for name, value in wanted.items()):
                found[record["set"], record.get("level"), record.get("who"), record.get("variant")] = record
        return list(found.values())

    def one(self, section, **wanted):
        found = self.all(section, **wanted)
        return found[-1] if found else None

    def sets(self, section):
        names = []
        for record in self.records:
            if record["section"] == section and "set" in record and record["set"] not in names:
                names.append(record["set"])
        return [name for name in (*paper.TABLE_V, *paper.SHAPES) if name in names]


def ratio(slow, fast):
    if slow is None or fast is None or "seconds" not in slow or "seconds" not in fast:
        return "-"
    return number(slow["seconds"] / fast["seconds"]) + "×"


def mean_ratio(pairs):
    """Geometric mean of (slow, fast) records that were both measured."""
    logs = [math.log(slow["seconds"] / fast["seconds"]) for slow, fast in pairs
            if slow and fast and "seconds" in slow and "seconds" in fast]
    return (math.exp(sum(logs) / len(logs)), len(logs)) if logs else (None, 0)


# ---- tables ----


def _table4_row(results, shape, place, level):
    """One set at one radius; None where it was not measured."""
    ours = results.one("table4", set=shape.name, level=level, who="nearfield")
    section = "table4" if ours is not None and "seconds" in ours else "goal"
    ours = results.one(section, set=shape.name, level=level, who="nearfield") or ours
    if ours is None:
        return None
    theirs = results.one(section, set=shape.name, level=level, who="torch")
    peer = results.one("gds", set=shape.name, level=level)
    printed = paper.TABLE_IV[paper.paper_name(shape)]
    scale = shape.paper_rows / shape.rows
    scaled = number(ours["seconds"] * scale**2) if scale > 1.0 and ours.get("rows") == shape.rows else ""
    return [shape.name, f"{ours.get('rows', 0):,} × {shape.dims}", LEVEL_NAMES[level], number(ours.get("selectivity")),
            seconds(ours) + ("*" if ours.get("results") == "stream" else ""), scaled, percent(ours.get("pruned_share")),
            seconds(theirs), ratio(theirs, ours), seconds(peer), ratio(peer, ours),
            *(number(printed[who][place]) if printed[who][place] else "> 60,000"
              for who in ("RT-HiSS", "GDS-Join", "COSS", "cuVS"))]


def table4(results):
    names = [name for name in paper.SHAPES if name in results.sets("goal") + results.sets("table4")]
    rows = [_table4_row(results, paper.SHAPES[name], place, level) for name in names
            for place, level in enumerate(paper.LEVELS)]
    return table("Table IV: seconds", [
        "set", "rows × dims", "selectivity", "reached", "Nearfield", "scaled to the paper's rows", "pruned",
        "PyTorch fp32, scaled", "ratio", "GDS-Join here", "ratio", "paper: RT-HiSS", "GDS-Join", "COSS", "cuVS",
    ], [row for row in rows if row is not None],
        "\\* delivered in batches, each given back when the next one comes. The paper's columns are of the real data sets and "
        "of another machine; data here have their shape. Scaled: by the square of the rows. PyTorch: a slice of the "
        "queries, scaled to all. GDS-Join: its time and its index's.")


def table5(results):
    rows = []
    for name in results.sets("table5"):
        printed = paper.TABLE_V[name]
        for ours in results.all("table5", set=name):
            rows.append([name, ours["variant"], f"{ours.get('rows', 0):,}", seconds(ours), len(ours.get("runs", [])),
                         f"{ours.get('pairs', 0):,}", percent(ours.get("pruned_share")), printed["RT-HiSS"], printed["RTNN"],
                         f"{number(printed['RT-HiSS'] / ours['seconds'])}×" if ours.get("rows") == 5_000_000 else "-"])
    return table("Table V: d = 3, seconds", ["set", "candidates", "rows", "Nearfield", "runs", "pairs", "pruned",
                 "paper: RT-HiSS", "RTNN", "RT-HiSS / Nearfield"], rows)


def candidates(results):
    rows, methods = [], ("boxes", "bvh", "rt", "none")
    for name in results.sets("candidates"):
        got = {record["variant"]: record for record in results.all("candidates", set=name)}
        some = next((record for record in got.values() if "rows" in record), {})
        rows.append([name, f"{some.get('rows', 0):,} × {some.get('dims', 0)}",
                     *(seconds(got.get(method)) for method in methods),
                     f"{got.get('auto', {}).get('candidates', '-')}, {seconds(got.get('auto'))}",
                     *(percent(got.get(method, {}).get("pruned_share")) for method in methods[:3])])
    return table("Methods against each other, selectivity 2^12: seconds of counts", ["set", "rows × dims", *methods, "auto",
                 "boxes prune", "bvh prunes", "rt prunes"], rows)


def table6(results):
    rows = []
    for name in results.sets("table6"):
        got = {record["variant"]: record for record in results.all("table6", set=name)}
        printed = paper.TABLE_VI[paper.paper_name(paper.SHAPES[name])]
        rows.append([name, *(percent(got.get(method, {}).get("pruned_share")) for method in ("rt", "bvh", "boxes")),
                     *map(percent, printed)])
    return table("Table VI: comparisons pruned at selectivity 2^12",
                 ["set", "rt", "bvh", "boxes", "paper: RT-HiSS", "GDS-Join"], rows)


def figure8(results):
    rows, pairs = [], {name: [] for name in paper.SHARES}
    for name in results.sets("figure8"):
        got = {record["variant"]: record for record in results.all("figure8", set=name)}
        for share, held in pairs.items():
            held.append((got.get("none"), got.get(share)))
        rows.append([name,
                     *(f"{seconds(got.get(share))} ({ratio(got.get('none'), got.get(share))})" for share in paper.SHARES),
                     got.get("both", {}).get("refine", "-"), got.get("none", {}).get("refine", "-")])
    if rows:
        rows.append(["mean gain", *(f"{number(mean_ratio(pairs[share])[0])}×" for share in paper.SHARES), "", ""])
        rows.append(["paper", f"{paper.FIGURE_8['both']}×", f"{paper.FIGURE_8['points']}×", "-", "1×", "", ""])
    return table("Table II and Figure 8: what refinement stages in shared memory; seconds of counts at 2^10 (gain)",
                 ["set", *paper.SHARES, "kernel of both", "of the others"], rows)


def figure9(results):
    rows, gains = [], {"mask against key-value": [], "compressed against uncompressed": []}
    for name in results.sets("figure9"):
        printed = paper.TABLE_III[paper.paper_name(paper.SHAPES[name])]
        for level in paper.LEVELS:
            got = {record["variant"]: record for record in results.all("figure9", set=name, level=level)}
            if not got:
                continue
            gains["mask against key-value"].append((got.get("pairs"), got.get("mask")))
            gains["compressed against uncompressed"].append((got.get("mask-raw"), got.get("mask")))
            rows.append([name, LEVEL_NAMES[level], *(f"{seconds(got.get(kind))}, {got.get(kind, {}).get('device_batches', '-')}"
                                                     for kind in paper.RESULTS),
                         *(printed if level == "l" else ("", ""))])
    notes = "; ".join(f"{what}: {number(mean_ratio(pairs)[0])}× (paper: {paper.FIGURE_9[what]}×)"
                      for what, pairs in gains.items())
    return table("Table III and Figure 9: how results are kept on the device; seconds, device batches",
                 ["set", "selectivity", *paper.RESULTS, "paper: batches, mask", "batches, key-value"], rows, notes)


def figure6(results):
    rows = []
    for name in results.sets("figure6"):
        for method in ("auto", "bvh"):
            got = {record["height"]: record for record in results.all("figure6", set=name)
                   if record["variant"].startswith(method)}
            timed = {height: record["seconds"] for height, record in got.items() if "seconds" in record and height}
            if not timed:
                continue
            rows.append([name, method, seconds(got.get(0)), *(number(timed.get(height)) for height in range(10, 19)),
                         min(timed, key=timed.get), next((math.floor(math.log(record["rows"])) for record in got.values() if "rows" in record), "-")])
    return table("Figure 6: height of the kd-tree; seconds of counts at 2^10", ["set", "candidates", "default",
                 *map(str, range(10, 19)), "best", "floor(ln n), the paper's"], rows)


def figure7(results):
    rows = []
    for name in results.sets("figure7"):
        for method in ("bvh", "rt"):
            got = {record["group_size"]: record for record in results.all("figure7", set=name)
                   if record["variant"].startswith(method)}
            rows.append([name, method, seconds(got.get(0)), seconds(got.get(1)), ratio(got.get(1), got.get(0))])
    paper_says = paper.FIGURE_7
    return table("Figure 7: boxes of groups against boxes of points; seconds of counts at 2^10",
                 ["set", "candidates", "group", "point", "gain"], rows,
                 f"Paper, all sets and radii: {paper_says['least']} to {paper_says['most']}×, mean {paper_says['mean']}×.")


def figure10(results):
    rows = []
    for section in ("table5", "goal", "table4"):
        for name in results.sets(section):
            runs = [record for record in results.all(section, set=name, who="nearfield")
                    if "steps" in record and record.get("results") != "counts" and record.get("variant") in (None, "auto")]
            if not runs:
                continue
            shares = []
            for step in STEPS:
                shares.append(sum(run["steps"].get(step, 0.0) / sum(run["steps"].values()) for run in runs) / len(runs))
            rows.append([name, *(percent(share) for share in shares)])
    printed = ", ".join(f"{name} {percent(share)}" for name, share in paper.FIGURE_10.items())
    return table("Figure 10: share of the time per step, mean over the radii", ["set", *STEPS], rows,
                 f"Paper, mean: {printed}.")


def table7(results):
    rows = []
    for name in results.sets("table7"):
        printed = paper.TABLE_VII[paper.paper_name(paper.SHAPES[name])]
        got = {record["variant"]: record for record in results.all("table7", set=name)}
        both, none = got.get("both", {}), got.get("none", {})
        loads = (both.get("global_loads"), none.get("global_loads"))
        conflicts = (both["shared_load_conflicts"] / both["shared_load_wavefronts"]
                     if both.get("shared_load_wavefronts") and "shared_load_conflicts" in both else None)
        rows.append([name, *(number(one["sm_throughput"]) + " %" if "sm_throughput" in one else one.get("failed", "-")[:40]
                             for one in (both, none)),
                     *(number(load) for load in loads), percent(1.0 - loads[0] / loads[1]) if all(loads) else "-",
                     percent(conflicts), percent(printed[0]), percent(printed[1]), percent(1.0 - printed[2] / printed[3])])
    return table("Table VII: the first refinement kernel under Nsight Compute", ["set", "compute throughput, both", "none",
                 "global loads, both", "none", "fewer", "conflicts per shared wavefront", "paper: throughput, both", "none",
                 "fewer loads"], rows)


def unpruned(results):
    rows = [[record["who"], record["variant"], record.get("refine", ""), seconds(record) if "seconds" in record else "",
             number(record["flops"] / 1e12) if "flops" in record else "-",
             number(record["refine_flops"] / 1e12) if "refine_flops" in record else ""]
            for record in results.all("unpruned")]
    return table("Nothing pruned: 1,000,000 × 128, counts, no early exit", ["who", "kernel", "used", "seconds",
                 "TFLOP/s at 2 d per unordered pair", "in refinement alone"], rows)


def radii(report):
    rows = [[key, entry["data"], f"{entry['radius']:.6g}", entry["wanted"],
             f"{entry['sample_mean']:.1f} ± {entry['standard_error']:.1f}", f"{entry['sample']:,}"]
            for key, entry in sorted(report["radii"].items())]
    return table("Radii: found by bisection on a sample of queries", ["set", "data", "radius", "selectivity wanted",
                 "sample's mean and its standard error", "queries"], rows)


def tables(report):
    results = Results(report)
    machine = report["machine"]
    head = f"{machine['gpu'] or 'no GPU'}; {machine['cpu']}, {machine['cores']} cores; {report['date'][:10]}\n"
    parts = [part(results) for part in (table5, table4, table6, candidates, figure8, figure9, table7, unpruned, figure6, figure7,
                                        figure10)]
    left_out = [record for record in report["results"] if "set" not in record]
    notes = [f"- {record['section']} {record.get('of', '')}: {record.get('failed') or record.get('left_out')}"
             for record in left_out]
    return "\n".join(part for part in (head, *parts, radii(report), "\n".join(notes)) if part)
