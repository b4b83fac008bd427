# SPDX-License-Identifier: Apache-2.0
"""Curves of recall and queries per second, and what is read off them.

A curve is a list of points, dicts with effort (probes or ef), recall and qps, by rising effort."""
import math
import statistics


def at_recall(points, target):
    """Queries per second at a recall: between the two neighbouring points, linear in recall and log qps. None where the
    curve does not reach it; the cheapest point where every point lies above."""
    below = None
    for point in points:
        if point["recall"] >= target:
            return point["qps"] if below is None else _between(below, point, target)
        below = point
    return None


def _between(below, above, target):
    share = (target - below["recall"]) / (above["recall"] - below["recall"])
    return math.exp((1.0 - share) * math.log(below["qps"]) + share * math.log(above["qps"]))


def bracket(points, target):
    """Efforts of the last point below a recall and the first that reaches it, with one more on each side; empty where
    none reaches it."""
    for place, point in enumerate(points):
        if point["recall"] >= target:
            return [p["effort"] for p in points[max(0, place - 2) : place + 2]]
    return []


def medians(points, runs):
    """The points that were timed in every run, with the median rate. runs: one dict effort -> qps per run."""
    timed = [point for point in points if runs and all(point["effort"] in run for run in runs)]
    return [point | {"qps": statistics.median(run[point["effort"]] for run in runs)} for point in timed]
