# SPDX-License-Identifier: Apache-2.0
"""Prints a result of ivf_gpu.py as Markdown tables, with what arXiv:2602.23999 says."""
import math

# What the paper prints, in words; on one NVIDIA L40S of 48 GB, batches of 10,000 queries, all indexes in device memory.
PAPER = (
    ("search, recall 0.95, against CAGRA", "0.8× to 8.2×; on average 3.0×; bitwise 3.3×"),
    ("search, recall 0.95, against IVF-PQ", "1.4× to 58.3×; on average more than 4.5×"),
    ("search, recall 0.95, against IVF-PQ with refinement", "1.4× to 10.0×"),
    ("search, recall 0.95, against IVF-PQ without refinement", "2.4× to 58.3×"),
    ("build, against CAGRA", "14.7× on average"),
    ("build, against IVF-PQ", "4.2× on average; same training of clusters, 8 bits per dimension"),
    ("bytes, against methods that keep the vectors", "less than 25 %"),
    ("small batches, recall 0.90, 0.95, 0.99", "less than a millisecond"),
    ("DEEP-150M: bytes", "about 18.0 GB; IVF-PQ with refinement 73.3 GB"),
    ("DEEP-150M: search against IVF-PQ with refinement, recall 0.90, 0.95", "1.58×, 1.70×"),
)
PRECISIONS = ("auto", "tile", "bitwise4", "bitwise8", "lut16", "lut32")
BUILD_KEYS, SEARCH_KEYS = ("set", "bits", "lists", "mode"), ("set", "bits", "lists", "precision", "target")


def number(value, digits=3):
    """Three digits, without exponents where that is readable; "-" for nothing."""
    if value is None:
        return "-"
    if value == 0 or abs(value) >= 1e9 or abs(value) < 1e-4:
        return f"{value:.{digits}g}"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.{max(digits - 1 - math.floor(math.log10(abs(value))), 0)}f}"


def milliseconds(value):
    return number(None if value is None else 1e3 * value)


def short(text):
    return text[:60].replace("|", "/").replace("\n", " ")


def table(title, head, rows, notes=""):
    """One Markdown table; nothing where there are no rows."""
    if not rows:
        return ""
    lines = [f"### {title}", "", "| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines) + "\n" + (f"\n{notes}\n" if notes else "")


def steps(record):
    """The steps of a build or a search in milliseconds."""
    return ", ".join(f"{name} {milliseconds(seconds)}" for name, seconds in record.get("steps", {}).items() if seconds)


class Results:
    """The records of a report. The newest counts, but one that failed never hides one that did not."""

    def __init__(self, report):
        self.records = sorted(report["results"], key=lambda record: "failed" not in record)

    def newest(self, section, keys):
        """The newest record of each combination of these values."""
        found = {}
        for record in self.records:
            if record["section"] == section:
                found[tuple(record.get(name) for name in keys)] = record
        return list(found.values())


def what(record):
    """Set, size and lists, as the first cells of a row."""
    size = f"{record['rows']:,} × {record['dims']}" if "rows" in record else "-"
    return [record["set"], size, record.get("lists", "-"), record.get("bits", "-")]


WHAT = ["set", "rows × dims", "lists", "bits"]


# ---- tables ----


def build_table(results):
    rows, records = [], results.newest("build", BUILD_KEYS)
    for record in records:
        if "failed" in record:
            rows.append([*what(record), record["mode"], short(record["failed"]), *[""] * 6])
            continue
        whole = next((one for one in records if one["mode"] == "whole" and "seconds" in one
                      and all(one[key] == record[key] for key in ("set", "bits", "lists", "rows"))), None)
        ratio = "" if record["mode"] == "whole" or whole is None else number(record["seconds"] / whole["seconds"]) + "×"
        rows.append([*what(record), record["mode"], number(record["seconds"]), ratio,
                     number(record["rows"] / record["seconds"]), number(record["bytes"] / 1e6),
                     number(record["bytes"] / record["data_bytes"]), number(record["code_error"]), steps(record)])
    return table("Build", [*WHAT, "memory", "seconds", "against whole", "rows/s", "index MB", "of the data", "code error",
                           "steps, ms"], rows,
                 "From a matrix in host memory (not pinned) to the index, the table of recall included. Streamed: device "
                 "memory for a quarter of the data's bytes.")


def search_table(results):
    rows = []
    for record in results.newest("search", SEARCH_KEYS):
        head = [*what(record), record["precision"], record.get("target", "-")]
        if "failed" in record:
            rows.append([*head, "", "", short(record["failed"]), *[""] * 4])
        elif "not_reached" in record:
            rows.append([*head, "", f"at most {record['not_reached']:.4f}", "-", *[""] * 4])
        else:
            rows.append([*head, record["probes"], f"{record['recall']:.4f}", number(record["qps"]),
                         milliseconds(record["seconds"]), number(record["scanned"]),
                         number(record["refined"]), steps(record)])
    return table("Search, all queries in one call", [
        *WHAT, "precision", "recall asked", "probes", "recall@10", "queries/s", "ms", "scanned", "refined", "steps, ms",
    ], rows,
        "Queries and results in pinned host memory; median of at least 7 calls. The fewest probes that reach the recall. "
        "Scanned, refined: rows per query.")


def latency_table(results):
    rows = [[*what(record), record["batch"], record["calls"], record["probes"], f"{record['recall']:.4f}",
             milliseconds(record["p50"]), milliseconds(record["p95"]), milliseconds(record["p99"]), number(record["qps"])]
            for record in results.newest("latency", ("set", "bits", "lists", "batch")) if "p50" in record]
    return table("Small batches, precision auto", [
        *WHAT, "batch", "calls", "probes", "recall@10", "p50 ms", "p95 ms", "p99 ms", "queries/s"], rows,
        "Called one after the other from Python, which adds a few microseconds to a call.")


def scan_table(results):
    groups, rows = {}, []
    for record in results.newest("scan", ("set", "bits", "lists", "precision", "multiple")):
        if record.get("rate"):
            key = tuple(record[name] for name in ("set", "bits", "lists", "multiple"))
            groups.setdefault(key, {})[record["precision"]] = record
    for group in groups.values():
        first = next(iter(group.values()))
        base = group.get("bitwise4")
        for precision in PRECISIONS:
            if precision in group:
                record = group[precision]
                ratio = number(record["rate"] / base["rate"]) + "×" if base else "-"
                rows.append([*what(record), first["multiple"], precision, record["probes"], number(record["scanned"]),
                             milliseconds(record["scan_seconds"]), number(record["rate"] / 1e9), ratio])
    return table("The step scan alone", [
        *WHAT, "probes, times those of recall 0.95", "precision", "probes", "scanned per query", "scan ms", "1e9 rows/s",
        "against bitwise4"], rows)


def floor_table(results):
    rows = [[*what(record)[:2], record["mode"], f"{record['slice_rows']:,}" + (", scaled" if record["scaled"] else ""),
             number(record["qps"]), "-" if record.get("recall") is None else f"{record['recall']:.4f}"]
            for record in results.newest("floor", ("set", "mode")) if "qps" in record]
    head = ["set", "rows × dims", "product", "rows measured", "queries/s", "recall@10"]
    return table("Brute force by PyTorch", head, rows,
                 "A product and topk block by block, data on the device, queries uploaded, ids downloaded. Scaled: by the "
                 "rows.")


def ceilings_table(results):
    names = {"copy": ("copy on the device, read and written", "GB/s", 1e9),
             "upload": ("pinned host memory to device", "GB/s", 1e9),
             "fp32": ("product, binary32", "TFLOP/s", 1e12), "tf32": ("product, TF32", "TFLOP/s", 1e12),
             "int8": ("product, 8-bit integers", "TOP/s", 1e12),
             "one_bit_tensor": ("1-bit tensor cores: computed, 8 times the product of 8-bit integers", "TOP/s", 1e12),
             "one_bit_popc": ("32-bit and + population count: computed, 16 per multiprocessor and cycle", "TOP/s", 1e12),
             "lookups": ("32-bit words of shared memory: computed, 32 per multiprocessor and cycle", "1e12/s", 1e12)}
    records = results.newest("roofline", ("section",))
    rows = [[text, number(record[name] / scale), unit] for record in records for name, (text, unit, scale) in names.items()
            if record.get(name)]
    return table("What the machine reaches", ["what", "rate", "unit"], rows, "Measured by PyTorch where not computed.")


def roofline_table(results):
    rows = []
    for section in ("search", "latency"):
        for record in results.newest(section, (*SEARCH_KEYS, "batch")):
            roof = record.get("roofline")
            if roof:
                parts = ", ".join(f"{name} {milliseconds(seconds)}" for name, seconds in roof["seconds"].items())
                rows.append([record["set"], record["bits"], record["precision"], record["batch"], record.get("target", "-"),
                             milliseconds(record["seconds"]), milliseconds(roof["floor"]), number(roof["over_floor"]) + "×",
                             roof["binds"], number(roof["reuse"]), parts])
    return table("Searches against the machine", [
        "set", "bits", "precision", "batch", "recall asked", "ms", "floor ms", "over it", "binds", "reuse", "each part, ms",
    ], rows,
        "Each part: its bytes or operations over the rate above. Codes: D/8 + 12 bytes a scanned row, read once by every "
        "query (no reuse; counts except for auto and tile), or once by up to 16 queries that share the list (reuse: how "
        "many, on average). Lists: 2 D operations a list and query; TF32 counts. Bits: 2 D operations a plane and scanned "
        "row. The floor is the largest; parts that follow each other add up. What lies in the cache is read faster than a "
        "copy.")


def paper_table(results):
    if not results.newest("paper", ("section",)):
        return ""
    return table("What arXiv:2602.23999 says, on an L40S and real data", ["what", "figure"], PAPER,
                 "For orientation: another card, other data, other peers.")


def missing_table(results):
    rows = [[record.get("set", "-"), short(record.get("left_out") or record.get("failed") or "")]
            for section in ("left out", "failed") for record in results.records if record["section"] == section]
    return table("Left out", ["set", "why"], rows)


def truth_text(results):
    return "".join(f"{record['set']}: {record['open_queries']} queries were compared with all rows in binary64, because "
                   "binary32 left them open.\n" for record in results.newest("truth", ("set",)))


def head(report):
    lines = ["## IVF-RaBitQ on a GPU", ""]
    for run in report["runs"]:
        machine = run["machine"]
        lines.append(f"- {run['date']}, commit {run['commit'] or '-'}: {machine.get('gpu') or 'no GPU'}; {machine['cpu']}, "
                     f"{machine['cores']} cores; engine {run['engine']}; `{' '.join(run['command_line'])}`")
    return "\n".join(lines) + "\n" + ("" if report["complete"] else "\nNot complete.\n")


def tables(report):
    """The whole as one text."""
    results = Results(report)
    parts = [head(report), *(make(results) for make in (
        build_table, search_table, latency_table, scan_table, floor_table, ceilings_table, roofline_table, paper_table,
        missing_table, truth_text))]
    return "\n".join(part for part in parts if part)
