# SPDX-License-Identifier: Apache-2.0
"""Talks with bench_radius: one process per data set, a question a line; and finds the radius of a selectivity."""
import json
import math
import queue
import subprocess
import threading
import time

START_SECONDS = 120.0   # generating the data, starting the device
SAMPLE = 2000           # queries that a radius is found with
CLOSE = 0.01            # relative difference of the sample's mean from what is wanted that ends the search
TRIES = 16


class Failed(Exception):
    """A question that was not answered: what the program says, or that it took too long."""


def option_words(options):
    """{"first_queries": 10} as ["--first-queries", "10"]."""
    words = []
    for name, value in options.items():
        words += ["--" + name.replace("_", "-"), str(value)]
    return words


class Program:
    """bench_radius with one data set in memory. A question that takes too long ends the process; the next starts another."""

    def __init__(self, program, data, options, deadline=math.inf):
        """deadline: of time.monotonic(), after which no answer is waited for."""
        self.command = [str(program), data, "-", *option_words(options)]
        self.deadline = deadline
        self.process = None
        self.lines = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _start(self):
        self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        text=True, bufsize=1)
        self.lines = queue.SimpleQueue()
        threading.Thread(target=self._read, args=(self.process, self.lines), daemon=True).start()

    @staticmethod
    def _read(process, lines):
        for line in process.stdout:
            lines.put(line)
        lines.put(None)

    def _stop(self):
        if self.process is None:
            return ""
        self.process.kill()
        text = self.process.stderr.read()
        self.process.wait()
        self.process = None
        return text.strip()

    def close(self):
        self._stop()

    def ask(self, question, limit):
        """The JSON lines of one answer. limit: seconds, those to start the process not counted."""
        if self.process is None:
            self._start()
            limit += START_SECONDS
        try:
            self.process.stdin.write(question + "\n")
        except BrokenPipeError:
            raise Failed(self._stop() or "the program ended") from None
        answers, until = [], min(time.monotonic() + limit, self.deadline)
        while True:
            try:
                line = self.lines.get(timeout=max(until - time.monotonic(), 0.0))
            except queue.Empty:
                self._stop()
                raise Failed(f"took more than {limit:.0f} s, or than was left") from None
            if line is None:
                raise Failed(self._stop() or "the program ended")
            answer = json.loads(line)
            if "answered" not in answer:
                answers.append(answer)
            elif answer["answered"]:
                return answers
            else:
                raise Failed(answer["error"])

    def run(self, radius, options, limit):
        """The answers to one radius with options, as a list of runs."""
        return self.ask(" ".join([repr(float(radius)), *option_words(options)]), limit)

    def save(self, path, limit):
        """Writes the data's values to a file."""
        self.ask(f"save {path}", limit)


def _next_radius(low, high, wanted):
    """Between two (radius, mean): on the line through both in logarithms; outside of what is known: twice, or half."""
    if high is None:
        return low[0] * 1.6
    if low is None:
        return high[0] / 1.6
    if low[1] <= 0.0:
        return math.sqrt(low[0] * high[0])
    slope = math.log(high[1] / low[1]) / math.log(high[0] / low[0])
    guess = low[0] * math.exp(math.log(wanted / low[1]) / slope) if slope > 0.0 else 0.0
    inside = low[0] * 1.0001 < guess < high[0] * 0.9999
    return guess if inside else math.sqrt(low[0] * high[0])


def calibrate(program, wanted, start, rows, limit):
    """The radius at which a query has `wanted` neighbours on average, from a sample of queries: radius, the sample's mean
    and its standard error. The sample is a semi-join of the first rows, so that each finds itself: one is taken off."""
    sample = min(SAMPLE, rows)
    low = high = None
    radius = start
    for _ in range(TRIES):
        run = program.run(radius, {"counts": 1, "first_queries": sample, "keep_index": 1}, limit)[0]
        mean = run["pairs"] / run["queries"] - 1.0
        error = math.sqrt(run["count_variance"] / run["queries"])
        if abs(mean / wanted - 1.0) <= CLOSE:
            break
        if mean < wanted:
            low = (radius, mean)
        else:
            high = (radius, mean)
        radius = _next_radius(low, high, wanted)
    return {"radius": radius, "wanted": wanted, "sample": sample, "sample_mean": mean, "standard_error": error}
