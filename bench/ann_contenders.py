# SPDX-License-Identifier: Apache-2.0
"""What is measured, in one form for libraries and the command: built once, then asked for recalls and for rates.

A contender has family, name, build(threads) which returns seconds, bytes(), efforts, recall(effort), rates(efforts,
mode) which measures each effort once: {effort: {"qps": ...}}, and call_microseconds()."""
import dataclasses
import gc
import statistics
import time

import numpy as np

import ann_libraries
import ann_nearfield


CALL_ROWS = 64    # of an index that is as good as empty
CALL_TRIES = 500


@dataclasses.dataclass(frozen=True)
class Mode:
    name: str
    threads: int
    single: bool  # one query per call


def modes(cores):
    chosen = [Mode("batch, 1 thread", 1, False), Mode("one by one, 1 thread", 1, True)]
    return chosen + ([Mode(f"batch, {cores} threads", cores, False)] if cores > 1 else [])


@dataclasses.dataclass
class Task:
    """What all contenders of a set are given."""
    metric: str
    k: int
    cores: int
    base: np.ndarray           # binary32, for libraries
    queries: np.ndarray
    singles: int               # the first of the queries, which are asked one by one
    measure: object            # ann_sets.Measure
    kth: np.ndarray
    files: tuple               # base, queries, the first queries, for the command
    truths: tuple              # of all queries, of the first ones
    scratch: object
    command: object
    shared: dict = dataclasses.field(default_factory=dict)


class Library:
    """One configuration of a library, called from Python."""

    def __init__(self, task, kind, rank, **settings):
        self.task, self.kind, self.rank, self.settings = task, kind, rank, settings
        self.index = kind(task.base, rank, task.scratch, task.shared, **settings)
        self.family, self.name = kind.family, self.index.name

    @property
    def efforts(self):
        return self.index.efforts

    def build(self, threads):
        start = time.perf_counter()
        before = self.index.build(threads)
        return before + time.perf_counter() - start

    def bytes(self):
        return self.index.bytes()

    def recall(self, effort):
        self.index.prepare(effort, self.task.cores)
        return self.task.measure.recall(self.task.kth, self.index.search(self.task.queries, self.task.k))

    def _seconds(self, mode):
        queries, search, k = self.task.queries, self.index.search, self.task.k
        if not mode.single:
            start = time.perf_counter()
            search(queries, k)
            return (time.perf_counter() - start) / len(queries)
        parts = [queries[row : row + 1] for row in range(self.task.singles)]
        start = time.perf_counter()
        for part in parts:
            search(part, k)
        return (time.perf_counter() - start) / len(parts)

    def rates(self, efforts, mode):
        gc.collect()
        found = {}
        for effort in efforts:
            self.index.prepare(effort, mode.threads)
            found[effort] = {"qps": 1.0 / self._seconds(mode)}
        return found

    def call_microseconds(self):
        """Median time of a call on an index that holds next to nothing: about what calling from Python costs."""
        rows = np.ascontiguousarray(self.task.base[:CALL_ROWS])
        settings = self.settings | ({"lists": 1} if "lists" in self.settings else {})
        index = self.kind(rows, self.rank, self.task.scratch, {}, **settings)
        index.build_smallest(self.task.k)
        seconds = []
        for row in range(CALL_TRIES):
            part = self.task.queries[row % len(self.task.queries)][np.newaxis]
            start = time.perf_counter()
            index.search(part, self.task.k)
            seconds.append(time.perf_counter() - start)
        return 1e6 * statistics.median(seconds)

    def drop(self):
        self.index = None
        gc.collect()


class Command:
    """One configuration of the command, which times its own calls."""

    def __init__(self, task, **settings):
        self.task = task
        self.index = ann_nearfield.Nearfield(task.command, task.files, task.metric, task.scratch, **settings)
        self.family, self.name = self.index.family, self.index.name
        self.isa = ""

    @property
    def efforts(self):
        return self.index.efforts

    def build(self, threads):
        return self.index.build(threads)

    def bytes(self):
        return self.index.bytes()

    def recall(self, effort):
        return self.task.measure.recall(self.task.kth, self.index.answer(effort, self.task.k, self.task.cores))

    def rates(self, efforts, mode):
        which = 1 if mode.single else 0
        self.isa, points = self.index.rates(efforts, self.task.k, mode.threads, int(mode.single),
                                            self.task.files[1 + which], self.task.truths[which])
        kept = ("qps", "latency_ms", "scanned", "refined")
        return {point["probes"]: {key: point[key] for key in kept if point.get(key) is not None} | {
            "recall_said": point["recall"]} for point in points}

    def call_microseconds(self):
        return 0.0

    def drop(self):
        self.index.drop()


def _grid(lists, bits):
    return [{"lists": count, "bits": width} for count in lists for width in bits]


def families(task, lists, bits):
    """Every family with its configurations: family -> list of functions that make a contender. The same lists and bits
    for all that have them; l2 and ip for cosine where a library's codes differ between the two."""
    both = ("l2",) if task.metric == "l2" else ("l2", "ip")

    def libraries(kind, ranks, settings):
        return [lambda rank=rank, one=one: Library(task, kind, rank, **one) for rank in ranks for one in settings]

    grid = _grid(lists, bits)
    refined = [{"lists": count, "factor": factor} for count in lists for factor in (4, 10)]
    kinds = [
        (ann_libraries.FaissRabitqFastScan, both, grid), (ann_libraries.FaissRabitq, both[-1:], grid),
        (ann_libraries.RabitqLibrary, both, grid), (ann_libraries.FaissPq, both[-1:], [{"lists": n} for n in lists]),
        (ann_libraries.FaissPqRefined, both[-1:], refined), (ann_libraries.Hnswlib, both[-1:], [{}]),
        (ann_libraries.Usearch, both[-1:], [{}]),
    ]
    found = {ann_nearfield.Nearfield.family: [lambda one=one: Command(task, **one) for one in grid]}
    return found | {kind.family: libraries(kind, ranks, settings) for kind, ranks, settings in kinds}
