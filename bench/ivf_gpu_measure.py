# SPDX-License-Identifier: Apache-2.0
"""What ivf_gpu.py measures: builds, searches at equal recall, the scan alone, brute force, the machine's rates.

A measurement is one record: the section, the parameters, the runs. Medians count, except for the machine's rates, where the
best does."""
import statistics
import subprocess
import sys
import time

import torch

import ivf_gpu_sets as sets
import nearfield_c

TARGETS = (0.90, 0.95, 0.99)
MIDDLE = 0.95            # the recall of latencies and scans
ENOUGH = 0.995           # recall at which a curve ends
FLAT = 5e-4              # gain over three points below which it ends, too
BATCHES = (1, 10, 100)
WARM_UPS, LEAST_RUNS, MOST_RUNS = 3, 7, 101
RUN_SECONDS = 0.5        # more than the least number of runs, up to this
LATENCY_CALLS, LATENCY_SECONDS = 2000, 2.0
GPU_PRECISIONS = ("auto", "lut16", "lut32", "bitwise4", "bitwise8", "tile")
PLANES = {"auto": 4, "bitwise4": 4, "bitwise8": 8, "tile": 4}
TILE = 16                # queries that share a row's short code in precision tile
FACTOR_BYTES = 12        # of a row's short code; of the whole code: WHOLE_FACTOR_BYTES
WHOLE_FACTOR_BYTES = 8
WARM_ROWS, WARM_LISTS = 20_000, 64
FLOOR_ROWS = 1_000_000   # slice of the data that brute force looks at
GEMM_SIZE, COPY_BYTES, UPLOAD_BYTES = 8192, 4 << 30, 1 << 30
CEILING_RUNS = 8
POPC_LANES, SHARED_LANES = 16, 32  # per multiprocessor and cycle: 32-bit population counts, 32-bit words of shared memory
ONE_BIT_GAIN = 8         # 1-bit products per 8-bit product on tensor cores
SHOWN = ("set", "bits", "precision", "batch", "target", "mode", "probes", "recall", "seconds", "qps", "rate", "not_reached",
         "left_out", "failed")
SPARE_SECONDS = 3.0      # of the time given, to write and print


class OutOfTime(Exception):
    """The time given has run out."""


class Bench:
    """Options, the report that is written after every record, the library, and the clock."""

    def __init__(self, options, report, save):
        self.options, self.report, self._save = options, report, save
        self.library = nearfield_c.Library(options.library)
        self.ceilings = None
        self.started = time.monotonic()

    def wants(self, section):
        return section in self.options.sections

    def need(self, seconds):
        """Stops where less time than this is left."""
        if self.options.seconds - (time.monotonic() - self.started) - SPARE_SECONDS < seconds:
            raise OutOfTime

    def add(self, section, **record):
        record = {"section": section, "run": len(self.report["runs"]) - 1, **record}
        self.report["results"].append(record)
        self._save()
        text = ", ".join(f"{name} {record[name]:.4g}" if isinstance(record[name], float) else f"{name} {record[name]}"
                         for name in SHOWN if record.get(name) is not None)
        print(f"[{time.monotonic() - self.started:5.0f} s] {section}: {text}", file=sys.stderr, flush=True)
        return record

    def context(self, gpu_memory=0):
        return self.library.context(self.options.engine, gpu_memory)


def wait(device):
    if device == "cuda":
        torch.cuda.synchronize()


def forget(device):
    """Gives the device's memory that PyTorch keeps back."""
    if device == "cuda":
        torch.cuda.empty_cache()


def time_once(work):
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def enough(runs, least):
    return len(runs) >= MOST_RUNS or (len(runs) >= least and sum(runs) >= RUN_SECONDS)


# ---- build ----


def warm_up(context, data):
    """A small build, so that starting the device is in no measurement."""
    rows = data.base[:WARM_ROWS]
    context.build(rows, lists=min(WARM_LISTS, len(rows)), metric=data.shape.metric, recall_rows=0)[0].close()


def build_once(context, data, lists, bits):
    """(index, record)."""
    start = time.perf_counter()
    index, said = context.build(data.base, lists=lists, bits=bits, metric=data.shape.metric)
    wall = time.perf_counter() - start
    inner = said.pop("seconds")
    return index, {"seconds": wall, "inner_seconds": inner, **said}


def about(bench, data, bits):
    """The parameters that every record of a set has."""
    shape = data.shape
    return {"set": shape.name, "rows": data.rows, "dims": shape.dims, "metric": shape.metric, "bits": bits,
            "lists": lists_of(bench, data), "dtype": str(data.base.dtype).removeprefix("torch."), "data_bytes": data.bytes,
            "engine": bench.options.engine}


def lists_of(bench, data):
    """The set's lists; fewer where rows have been cut for a trial."""
    lists = bench.options.lists or data.shape.lists
    return max(min(lists, lists * data.rows // data.shape.rows), 1)


def build(bench, context, data, bits):
    """Builds some times, adds the record and returns the last index."""
    bench.need(2.0)
    runs, index = [], None
    for _ in range(bench.options.build_runs):
        if index is not None:
            index.close()
        index, record = build_once(context, data, lists_of(bench, data), bits)
        runs.append(record)
    middle = sorted(runs, key=lambda run: run["seconds"])[len(runs) // 2]
    info, who = index.describe(), context.describe()
    bench.add("build", **about(bench, data, bits), mode="whole", **middle, runs=[run["seconds"] for run in runs],
              bytes=info["bytes"], device=who["device"], did=who["engine"], host_peak=who["memory_peak"])
    return index


def build_streamed(bench, data, bits):
    """The same with device memory for a quarter of the data."""
    bench.need(2.0)
    limit = max(data.bytes // 4, 1)
    record = {**about(bench, data, bits), "mode": "streamed", "gpu_memory": limit}
    try:
        with bench.context(limit) as context:
            warm_up(context, data)
            index, said = build_once(context, data, lists_of(bench, data), bits)
            size, who = index.describe()["bytes"], context.describe()
            index.close()
    except nearfield_c.Failed as error:
        bench.add("build", **record, failed=str(error)[:300])
        return
    bench.add("build", **record, **said, runs=[said["seconds"]], bytes=size, device=who["device"], did=who["engine"])


# ---- search ----


class Searcher:
    """Searches of one index with all queries of a set; results in pinned memory where there is a GPU."""

    def __init__(self, bench, context, index, data, bits):
        self.bench, self.context, self.index, self.data, self.bits = bench, context, index, data, bits
        self.info = index.describe()
        self.ids, self.distances = self._results(len(data.queries))
        self.known = {}

    def _results(self, count):
        pin = self.data.device == "cuda"
        return (torch.empty(count, sets.K, dtype=torch.int64, pin_memory=pin),
                torch.empty(count, sets.K, dtype=torch.float32, pin_memory=pin))

    def search(self, probes, precision, batch=None):
        """A search of all queries, or of the first few of them."""
        ids, distances = (self.ids, self.distances) if batch is None else self._results(batch)
        queries = self.data.queries if batch is None else self.data.queries[:batch]
        return self.context.search(self.index, queries, ids, distances, probes=probes, precision=precision)

    def recall(self, probes, precision):
        if (probes, precision) not in self.known:
            self.search(probes, precision)()
            self.known[probes, precision] = self.data.recall(self.ids)
        return self.known[probes, precision]

    def about(self, precision, probes):
        return {**about(self.bench, self.data, self.bits), "precision": precision, "probes": probes, "k": sets.K}


def grid(lists):
    """Growing numbers of probes: 1, 2, 3, 4, 6, 8, 12, 16, ..., lists."""
    probes = [1, 2, 3]
    while probes[-1] < lists:
        probes.append(2 * probes[-2])
    return sorted({min(one, lists) for one in probes})


def curve(searcher, precision):
    """Recall by probes, up to where it is enough or flat."""
    points = []
    for probes in grid(searcher.info["lists"]):
        points.append((probes, searcher.recall(probes, precision)))
        flat = len(points) > 6 and points[-1][1] - points[-4][1] < FLAT
        if points[-1][1] >= ENOUGH or flat:
            break
    return points


def fewest(searcher, precision, points, target):
    """The fewest probes that reach a recall, found between two points of the curve; None where none does."""
    high = next((probes for probes, recall in points if recall >= target), None)
    if high is None:
        return None
    low = max((probes for probes, _ in points if probes < high), default=0)
    while high - low > 1:
        middle = (low + high) // 2
        if searcher.recall(middle, precision) >= target:
            high = middle
        else:
            low = middle
    return high


def per_query(said, count):
    return {"scanned": said["scanned"] / count, "refined": said["refined"] / count}


def time_search(searcher, probes, precision):
    """All queries in one call: median of the runs, and what the run in the middle says."""
    search, runs = searcher.search(probes, precision), []
    for _ in range(WARM_UPS):
        search()
    while not enough([seconds for seconds, _ in runs], LEAST_RUNS):
        seconds = time_once(search)
        runs.append((seconds, search.said()))
    count = len(searcher.data.queries)
    seconds, said = sorted(runs, key=lambda run: run[0])[len(runs) // 2]
    every = [run[0] for run in runs]
    return {"batch": count, "seconds": statistics.median(every), "qps": count / statistics.median(every), "runs": every,
            "inner_seconds": said["inner_seconds"], "steps": said["steps"], **per_query(said, count),
            "scan_runs": [run[1]["steps"]["scan"] for run in runs]}


def search_precision(searcher, precision):
    """The curve of one precision, and the rate at each recall."""
    bench, count = searcher.bench, len(searcher.data.queries)
    points = curve(searcher, precision)
    bench.add("curve", **searcher.about(precision, None), batch=count, points=points)
    for target in TARGETS:
        bench.need(3.0)
        probes = fewest(searcher, precision, points, target)
        record = {**searcher.about(precision, probes), "target": target}
        if probes is None:
            bench.add("search", **record, batch=count, not_reached=max(recall for _, recall in points))
            continue
        record |= {"recall": searcher.recall(probes, precision), **time_search(searcher, probes, precision)}
        if bench.ceilings is not None:
            record["roofline"] = roofline(bench.ceilings, searcher, record)
        bench.add("search", **record)


def middle_probes(searcher):
    """The probes of AUTO at the middle recall; where none reach it, the least that come within 0.002 of the best."""
    points = curve(searcher, "auto")
    best = max(recall for _, recall in points)
    return fewest(searcher, "auto", points, min(MIDDLE, best - 0.002 if best < MIDDLE else MIDDLE))


def latency(searcher, batch, probes):
    """Many calls with few queries, one after the other."""
    bench, count = searcher.bench, len(searcher.data.queries)
    if batch > count:
        return
    bench.need(2.0)
    search = searcher.search(probes, "auto", batch)
    places = range(0, count - batch + 1, batch)
    for place in places[:20]:
        search.move(place)
        search()
    runs, scanned, refined, begun = [], 0, 0, time.perf_counter()
    for call in range(LATENCY_CALLS):
        search.move(places[call % len(places)])
        runs.append(time_once(search))
        scanned, refined = scanned + search.stats.scanned, refined + search.stats.refined
        if time.perf_counter() - begun > LATENCY_SECONDS and call >= LEAST_RUNS:
            break
    steps = search.said()["steps"]
    queries, ordered = batch * len(runs), sorted(runs)
    record = {**searcher.about("auto", probes), "recall": searcher.recall(probes, "auto"), "batch": batch,
              "calls": len(runs), "seconds": statistics.median(runs), "qps": queries / sum(runs),
              "steps_of_last_call": steps, "scanned": scanned / queries, "refined": refined / queries}
    for share in (50, 95, 99):
        record[f"p{share}"] = ordered[min(len(ordered) * share // 100, len(ordered) - 1)]
    if bench.ceilings is not None:
        record["roofline"] = roofline(bench.ceilings, searcher, record)
    bench.add("latency", **record)


def scan(searcher, precision, probes, multiple):
    """Short codes per second in the step scan alone."""
    bench = searcher.bench
    bench.need(3.0)
    probes = min(probes * multiple, searcher.info["lists"])
    timed = time_search(searcher, probes, precision)
    step = statistics.median(timed["scan_runs"])
    pairs = timed["scanned"] * timed["batch"]
    bench.add("scan", **searcher.about(precision, probes), multiple=multiple, pairs=pairs, scan_seconds=step,
              rate=pairs / step if step > 0 else None, **timed)


def search_sections(searcher):
    """Everything that one index is searched for."""
    bench = searcher.bench
    searcher.data.judge()
    forget(searcher.data.device)
    if bench.wants("search"):
        for precision in bench.options.precisions:
            attempt(bench, "search", lambda: search_precision(searcher, precision), searcher.about(precision, None))
    if not (bench.wants("latency") or bench.wants("scan")):
        return
    probes = middle_probes(searcher)
    for batch in BATCHES if bench.wants("latency") else ():
        latency(searcher, batch, probes)
    for multiple in (1, 4) if bench.wants("scan") else ():
        for precision in scan_precisions(bench):
            attempt(bench, "scan", lambda: scan(searcher, precision, probes, multiple), searcher.about(precision, None))


def scan_precisions(bench):
    """AUTO is one of the others; where it is all that the engine has, it is measured."""
    return [one for one in reversed(bench.options.precisions) if one != "auto"] or ["auto"]


def attempt(bench, section, work, record):
    """What the library refuses is recorded and does not stop the next."""
    try:
        work()
    except nearfield_c.Failed as error:
        bench.add(section, **record, failed=str(error)[:300])


# ---- brute force ----


def _brute_block(queries, rows, norms, best, ids, first):
    scores = torch.addmm(norms[None, :], queries, rows.T, alpha=-2.0)
    found, places = scores.topk(min(sets.K, len(rows)), dim=1, largest=False)
    if best is not None:
        found, places = torch.cat((best, found), 1), torch.cat((ids, places + first), 1)
        found, order = found.topk(sets.K, dim=1, largest=False)
        return found, places.gather(1, order)
    return found, places + first


def brute_force(data, rows, norms, scale, mode):
    """The nearest rows of all queries: upload, a product and topk block by block, download."""
    best, ids = None, None
    queries = _scaled(data.queries.to(data.device, non_blocking=True), data.shape.metric, scale).to(rows.dtype)
    torch.backends.cuda.matmul.allow_tf32 = mode == "TF32"
    for first in range(0, len(rows), sets.BLOCK_ROWS):
        end = first + sets.BLOCK_ROWS
        best, ids = _brute_block(queries, rows[first:end], norms[first:end], best, ids, first)
    torch.backends.cuda.matmul.allow_tf32 = False
    return ids.cpu()


def _scaled(rows, metric, scale):
    """Binary32; divided so that binary16 holds the squared lengths."""
    rows = rows.float()
    return torch.nn.functional.normalize(rows) if metric == "cosine" else rows / scale


def floor_mode(bench, data, mode, dtype):
    """One kind of product; the time is scaled from a slice of the data to all rows."""
    bench.need(5.0)
    count = min(data.rows, FLOOR_ROWS)
    scale = data.copy[:sets.BLOCK_ROWS].float().norm(dim=1).max().item()
    rows = _scaled(data.copy[:count], data.shape.metric, scale)
    norms, rows = rows.square().sum(dim=1).to(dtype), rows.to(dtype)
    ids, runs = brute_force(data, rows, norms, scale, mode), []
    while not enough(runs, 3):
        runs.append(time_once(lambda: brute_force(data, rows, norms, scale, mode)))
    seconds = statistics.median(runs) * data.rows / count
    bench.add("floor", **about(bench, data, None), mode=mode, batch=len(data.queries), slice_rows=count, runs=runs,
              scaled=count < data.rows, seconds=seconds, qps=len(data.queries) / seconds,
              recall=data.recall(ids) if count == data.rows else None)


def floor(bench, data):
    """Brute force by PyTorch on a slice of the data."""
    data.judge()
    for mode, dtype in (("fp32", torch.float32), ("TF32", torch.float32), ("fp16", torch.float16)):
        floor_mode(bench, data, mode, dtype)
        forget(data.device)


# ---- what the machine reaches ----


def _best(device, work):
    runs = []
    for _ in range(CEILING_RUNS + 1):  # the first warms up
        wait(device)
        runs.append(time_once(lambda: (work(), wait(device))))
    return min(runs[1:])


def _gemm_rate(device, size, tf32):
    torch.backends.cuda.matmul.allow_tf32 = tf32
    a, b = torch.rand(size, size, device=device), torch.rand(size, size, device=device)
    seconds = _best(device, lambda: torch.mm(a, b.T))
    torch.backends.cuda.matmul.allow_tf32 = False
    return 2.0 * size**3 / seconds


def _byte_gemm_rate(size):
    """Of 8-bit integers on tensor cores; None where PyTorch has none."""
    a = torch.ones(size, size, dtype=torch.int8, device="cuda")
    b = torch.ones(size, size, dtype=torch.int8, device="cuda")
    try:
        return 2.0 * size**3 / _best("cuda", lambda: torch._int_mm(a, b.T))
    except (AttributeError, RuntimeError):
        return None


def _largest_clock():
    """Cycles per second, as nvidia-smi says; None without it."""
    try:
        done = subprocess.run(["nvidia-smi", "--query-gpu=clocks.max.sm", "--format=csv,noheader,nounits"],
                              capture_output=True, text=True, check=False)
        return 1e6 * float(done.stdout.splitlines()[0])
    except (OSError, ValueError, IndexError):
        return None


def _copy_rates(device):
    """Bytes per second of a copy on the device (read and written), and from pinned host memory to it."""
    size, upload = (COPY_BYTES, UPLOAD_BYTES) if device == "cuda" else (64 << 20, 64 << 20)
    source = torch.zeros(size, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    copied = 2.0 * size / _best(device, lambda: target.copy_(source))
    host = torch.zeros(upload, dtype=torch.uint8, pin_memory=device == "cuda")
    part = target[:upload]
    return copied, upload / _best(device, lambda: part.copy_(host, non_blocking=True))


def measure_ceilings(bench):
    """Rates of this machine; bit rates and lookups are computed from clock and multiprocessors, and say so."""
    device = bench.options.device
    bench.need(5.0)
    size = GEMM_SIZE if device == "cuda" else 512
    copied, uploaded = _copy_rates(device)
    found = {"copy": copied, "upload": uploaded, "fp32": _gemm_rate(device, size, False),
             "tf32": _gemm_rate(device, size, True)}
    if device == "cuda":
        cycles, units = _largest_clock(), torch.cuda.get_device_properties(0).multi_processor_count
        byte_rate = _byte_gemm_rate(size)
        found |= {"int8": byte_rate, "one_bit_tensor": ONE_BIT_GAIN * byte_rate if byte_rate else None,
                  "one_bit_popc": 2.0 * 32 * POPC_LANES * units * cycles if cycles else None,
                  "lookups": float(SHARED_LANES * units * cycles) if cycles else None, "cycles": cycles, "units": units}
    bench.ceilings = found
    forget(device)
    bench.add("roofline", **found)


def roofline(ceilings, searcher, record):
    """Seconds that each part of a search takes at the machine's rate; the largest is the floor, and binds."""
    info, data, precision = searcher.info, searcher.data, record["precision"]
    count, dims = record["batch"], info["padded_dims"]
    pairs, refined = record["scanned"] * count, record["refined"] * count
    code_bytes = pairs * (dims / 8 + FACTOR_BYTES)
    reuse = max(min(count * record["probes"] / info["lists"], TILE), 1.0)  # queries that share a list, on average
    amounts = {
        "codes, no reuse": (code_bytes, "copy"),
        "codes, reuse": (code_bytes / reuse, "copy"),
        "lists fp32": (2.0 * count * dims * info["lists"], "fp32"),
        "lists TF32": (2.0 * count * dims * info["lists"], "tf32"),
        "whole codes": (refined * (dims * (info["bits"] - 1) / 8 + WHOLE_FACTOR_BYTES), "copy"),
        "queries": (count * data.queries.shape[1] * data.queries.element_size(), "upload"),
    }
    if precision.startswith("lut"):
        amounts["lookups"] = (pairs * dims / 4, "lookups")
    else:
        kind = "one_bit_popc" if precision.startswith("bitwise") else "one_bit_tensor"
        amounts["bits"] = (2.0 * PLANES[precision] * dims * pairs, kind)
    seconds = {name: amount / ceilings[ceiling] for name, (amount, ceiling) in amounts.items() if ceilings.get(ceiling)}
    left_out = {"lists fp32", "codes, no reuse" if precision in ("tile", "auto") else "codes, reuse"}
    binds = max((name for name in seconds if name not in left_out), key=seconds.get)
    return {"amounts": {name: amount for name, (amount, _) in amounts.items()}, "seconds": seconds, "reuse": reuse,
            "binds": binds, "floor": seconds[binds], "over_floor": record["seconds"] / seconds[binds]}


# ---- a set ----


def make_data(bench, shape):
    """The values; stops where there is clearly no time for them."""
    rows = min(bench.options.rows or shape.rows, shape.rows)
    bench.need(3.0 + 1.5e-9 * 4 * rows * shape.dims)
    begun = time.monotonic()
    data = sets.Data(shape, bench.options.device, rows, bench.options.queries)
    forget(data.device)
    print(f"  {shape.name}: {data.rows:,} rows in {time.monotonic() - begun:.1f} s", file=sys.stderr, flush=True)
    return data


def measure_indexes(bench, data):
    """Every number of bits: an index, and what it is searched for."""
    options = bench.options
    searched = options.bits if any(bench.wants(name) for name in ("search", "latency", "scan")) else ()
    built = options.build_bits if bench.wants("build") else ()
    with bench.context() as context:
        if built or searched:
            warm_up(context, data)
        for bits in sorted({*built, *searched}):
            with build(bench, context, data, bits) as index:
                if bits in searched:
                    search_sections(Searcher(bench, context, index, data, bits))
    if built and options.engine != "cpu":
        build_streamed(bench, data, min(built))


def measure_set(bench, shape):
    data = make_data(bench, shape)
    measure_indexes(bench, data)
    if bench.wants("floor"):
        floor(bench, data)
    if data.open_queries:
        bench.add("truth", set=shape.name, open_queries=data.open_queries)


def run(bench):
    """All sets. Returns whether everything was measured."""
    whole = True
    if bench.wants("roofline"):
        try:
            measure_ceilings(bench)
        except (OutOfTime, RuntimeError) as error:
            whole = False
            bench.add("left out", left_out=f"what the machine reaches: {str(error)[:200] or 'no time was left'}")
    for name in bench.options.sets:
        shape = sets.SHAPES[name]
        if not sets.available(shape):
            bench.add("left out", set=name, left_out=f"no {shape.base} in NEARFIELD_DATA")
            continue
        try:
            measure_set(bench, shape)
        except OutOfTime:
            whole = False
            bench.add("left out", set=name, left_out="no time was left for the rest of it")
        except (nearfield_c.Failed, RuntimeError, OSError) as error:  # RuntimeError: PyTorch's, out of memory too
            whole = False
            bench.add("failed", set=name, failed=str(error)[:300])
        forget(bench.options.device)
    return whole
