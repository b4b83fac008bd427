# SPDX-License-Identifier: Apache-2.0
"""What the sections of rt_hiss_tables.py share: the report, time that is left, radii, one measurement as one record."""
import json
import pathlib
import statistics
import sys
import time

import numpy as np

import rt_hiss_paper as paper
import rt_hiss_program
import rt_hiss_torch

CSR_BYTES = 10            # of host memory per pair, on the way
SPARE_SECONDS = 3.0       # of the time given, to write and print


class OutOfTime(Exception):
    """The time given has run out."""


class Bench:
    """Options, the report that is written after every record, and the clock."""

    def __init__(self, options, report, save):
        self.options, self.report, self._save = options, report, save
        self.started = time.monotonic()

    # -- time --

    def left(self):
        return self.options.seconds - (time.monotonic() - self.started) - SPARE_SECONDS

    def limit(self, seconds):
        """A question's limit: what it may take, or what is left."""
        left = self.left()
        if left <= 1.0:
            raise OutOfTime
        return min(seconds, left)

    # -- records --

    def add(self, section, **record):
        record = {"section": section, **record}
        self.report["results"].append(record)
        self._save()
        text = ", ".join(f"{name} {record[name]:.4g}" if isinstance(record[name], float) else f"{name} {record[name]}"
                         for name in ("set", "who", "level", "variant", "seconds", "pruned_share", "batches", "failed")
                         if record.get(name) is not None)
        print(f"[{time.monotonic() - self.started:5.0f} s] {section}: {text}", file=sys.stderr, flush=True)
        return record

    def records(self, section=None, **wanted):
        """Records of a section with these values."""
        return [record for record in self.report["results"] if (section is None or record["section"] == section)
                and all(record.get(name) == value for name, value in wanted.items())]

    # -- data and programs --

    def rows(self, shape):
        return min(self.options.rows or shape.rows, shape.rows)

    def open(self, data):
        return rt_hiss_program.Program(self.options.program, data, {"engine": self.options.engine},
                                       self.started + self.options.seconds)

    def open_shape(self, shape):
        return self.open(shape.generator(self.rows(shape)))

    def shapes(self, names):
        """Those of the names that --sets allows."""
        chosen = self.options.sets.split(",") if self.options.sets else names
        return [paper.SHAPES[name] for name in names if name in chosen]

    def selectivity(self, shape, level):
        """Neighbours wanted; fewer where rows have been cut for a trial."""
        wanted, rows = paper.LEVELS[level], self.rows(shape)
        return min(wanted, max(rows // {"s": 64, "m": 32, "l": 16}[level], 1))

    def radius(self, program, shape, level):
        """The radius of a level, found once for a set and kept in the report."""
        key = f"{shape.name}:{self.rows(shape)}:{level}"
        if key not in self.report["radii"]:
            below = [entry["radius"] for name, entry in self.report["radii"].items()
                     if name.startswith(f"{shape.name}:{self.rows(shape)}:")]
            growth = (self.selectivity(shape, level) / self.selectivity(shape, "s")) ** (1.0 / shape.intrinsic)
            start = max(below) if below else shape.start * growth
            found = rt_hiss_program.calibrate(program, self.selectivity(shape, level), start, self.rows(shape),
                                              self.limit(60.0))
            self.report["radii"][key] = {**found, "data": shape.generator(self.rows(shape))}
            self._save()
        return self.report["radii"][key]["radius"]

    def values(self, program, shape, limit=60.0):
        """The data's values, written by the program and mapped: (path, array). The caller removes the file."""
        path = pathlib.Path(self.options.scratch) / f"rt_hiss_{shape.name}.raw"
        program.save(path, self.limit(limit))
        return path, np.fromfile(path, dtype=np.float32).reshape(-1, shape.dims)

    def results_kind(self, shape, level):
        """Whole result in host memory where it fits, in batches where it does not."""
        needed = CSR_BYTES * self.selectivity(shape, level) * self.rows(shape)
        return {} if needed < self.options.host_bytes else {"stream": 1}

    # -- measuring --

    def each(self, section, names, work):
        """work(shape) for every set; what fails with one is recorded and does not stop the next."""
        for shape in self.shapes(names):
            try:
                work(shape)
            except (rt_hiss_program.Failed, RuntimeError, OSError) as error:  # RuntimeError: PyTorch's, out of memory too
                self.add(section, of=shape.name, failed=str(error)[:300])
                rt_hiss_torch.forget()

    def time(self, program, section, radius, options, runs=1, limit=60.0, **about):
        """Runs one question several times (fewer when the limit is reached) and adds one record: seconds are the median."""
        done, failed = [], None
        started = time.monotonic()
        try:
            for _ in range(runs):
                done += program.run(radius, options, self.limit(limit))
                if time.monotonic() - started > limit:
                    break
        except rt_hiss_program.Failed as error:
            failed = str(error)
        except OutOfTime:
            if not done:
                raise
        record = {"who": "nearfield", **about, "radius": radius, "options": options}
        if done:
            middle = sorted(done, key=lambda run: run["seconds"])[len(done) // 2]
            every = [run["seconds"] for run in done]
            record |= {"runs": every, "seconds": statistics.median(every)}
            record |= {name: value for name, value in middle.items() if name not in ("seconds", "radius")}
        elif failed:
            record["failed"] = failed
        return self.add(section, **record)


def load_report(path):
    """An earlier report: its records and radii are kept and added to."""
    return json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
