# SPDX-License-Identifier: Apache-2.0
"""The command nearfield as one more index: it builds a file, and measures its own searches.

Rates are those that `nearfield search --json` prints: searching alone, queries and index in memory, neither reading nor
starting a process. Each call of the command is a process of its own, so it first searches once with the least effort,
which is not counted: libraries in this process are warm as well."""
import json
import pathlib
import subprocess

import numpy as np

import ann_libraries


class Nearfield:
    """One configuration. files: base and queries, as they are stored."""
    family = "Nearfield"

    def __init__(self, command, files, metric, scratch, **settings):
        self.command, self.files, self.metric, self.settings = str(command), files, metric, settings
        self.scratch = pathlib.Path(scratch)
        self.file = self.scratch / ("_".join(["nearfield", *map(str, settings.values())]) + ".nf")

    @property
    def name(self):
        return ", ".join(f"{key} {value}" for key, value in self.settings.items())

    @property
    def efforts(self):
        return ann_libraries.probes_up_to(self.settings["lists"])

    def _run(self, *arguments):
        """Runs the command; its summary."""
        file = self.scratch / "summary.json"
        command = [self.command, *map(str, arguments), "-q", f"--json={file}"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"exit code {done.returncode}: {' '.join(command)}\n{done.stderr}")
        return json.loads(file.read_text(encoding="utf-8"))

    def build(self, threads):
        """Seconds of the build, without reading the data and writing the index."""
        summary = self._run("build", self.files[0], "-o", self.file, "--lists", self.settings["lists"],
                                 "--bits", self.settings["bits"], "--metric", self.metric, "--threads", threads)
        return summary["seconds"]

    def bytes(self):
        return self.file.stat().st_size

    def answer(self, effort, k, threads):
        """Ids that one search returns for all queries."""
        out = self.scratch / "answer.npz"
        self._run("search", self.file, self.files[1], "-k", k, "--probes", effort, "--threads", threads, "-o", out)
        with np.load(out) as file:
            return file["ids"]

    def rates(self, efforts, k, threads, batch, queries, truth):
        """The instruction set, and what the command says of each effort: objects with probes, qps, recall and more.
        batch 0: all queries in one call."""
        asked = [efforts[0], *efforts]
        summary = self._run(
            "search", self.file, queries, "-k", k, "--probes", ",".join(map(str, asked)), "--truth", truth,
            "--threads", threads, *(["--batch", batch] if batch else []))
        if [point["probes"] for point in summary["sweep"]] != asked:
            raise RuntimeError(f"asked for probes {asked}, measured {[p['probes'] for p in summary['sweep']]}")
        return summary["isa"], summary["sweep"][1:]

    def drop(self):
        self.file.unlink(missing_ok=True)
