#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Counts, without any clock, what pruning rules would leave of a self-join on the CPU: pairs, and dims of those pairs.

The model follows src/cpu: a kd-tree by rank (cpu_group.c), boxes, balls and boxes of single queries (cpu_hits.c), register
blocks of 8 listed queries x 32 points that leave at a stop when all their pairs are out (cpu_rule.c, kernels/). A sample of
query groups meets all other groups. Sums are binary32 without the widening that a proven test needs (about 1e-5 of the
radius), so the counts are what such a test could leave at best.

cost is what a block computes, in dims: its dims, and for every stop it looks at STOP_COST (cpu_rule.c), for a stop with
residual norms RESIDUAL_STOP_COST, for row pivots one each. The last three are assumed, not measured."""
import argparse
import json
import pathlib
import subprocess
import tempfile

import numpy as np

import bench_sets
import rt_hiss_paper

TILE, BLOCK_X, BLOCK_Y = 64, 8, 32
MOST_KEYS, NORM_DIMS, BOX_DIMS = 7, 32, 8
STOP_COST, RESIDUAL_STOP_COST = 2, 4
PIVOTS = 16
SHAPES = tuple("shape-" + name for name in ("wec", "msd", "susy-clustered", "bigcross", "higgs-clustered", "higgs", "sift"))


def stops_of(dims, fine):
    """Stops of cpu_rule.c; fine: with 8, 16 and 24 before them."""
    at, stops = 32, [s for s in (8, 16, 24) if fine and s + 8 <= dims]
    while at + 8 <= dims:
        stops.append(at)
        at = (at + at // 2 + 7) // 8 * 8
    return np.array(stops + [dims])


def group(rows, norms):
    """Row numbers in the order of the kd-tree by rank; groups are TILE of them each."""
    dims = rows.shape[1]
    keys = rows[:, :MOST_KEYS].copy()
    if dims >= NORM_DIMS:
        keys[:, MOST_KEYS - 1] = norms
    order, todo = np.arange(len(rows)), [(0, len(rows))]
    while todo:
        begin, end = todo.pop()
        groups = -(-(end - begin) // TILE)
        if groups < 2:
            continue
        part = order[begin:end]
        sample = keys[part[:: max(1, len(part) // 1024)]]
        key = np.argmax(sample.max(0) - sample.min(0))
        part = part[np.lexsort((part, keys[part, key]))]
        order[begin:end] = part
        middle = begin + groups // 2 * TILE
        todo += [(begin, middle), (middle, end)]
    return order


class Space:
    """Rows in some coordinates, in groups."""

    def __init__(self, rows, order):
        self.rows = rows[order]
        tiles = self.rows.reshape(-1, TILE, rows.shape[1])
        self.low, self.high, self.centre = tiles.min(1), tiles.max(1), tiles.mean(1)
        self.spread = np.sqrt(((tiles - self.centre[:, None]) ** 2).sum(2)).max(1)

    def boxes(self, g, radius):
        gap = np.maximum(0, np.maximum(self.low - self.high[g], self.low[g] - self.high))
        return (gap**2).sum(1) <= radius**2

    def balls(self, g, radius):
        apart = np.sqrt(((self.centre - self.centre[g]) ** 2).sum(1))
        return apart - self.spread - self.spread[g] <= radius

    def queries(self, g, radius):
        """Which queries of group g lie in which groups' grown boxes in the first dims: (TILE, groups)."""
        x = self.rows[g * TILE : (g + 1) * TILE, None, :BOX_DIMS]
        near = (x >= self.low[:, :BOX_DIMS] - radius) & (x <= self.high[:, :BOX_DIMS] + radius)
        return near.all(2)

    def exits(self, g, stops, radius, residual, chosen):
        """For each query of g and row of the chosen groups, the first stop at which the pair is out; the last one too
        where it never is: (TILE, rows)."""
        picked = self.rows.reshape(-1, TILE, self.rows.shape[1])[chosen].reshape(-1, self.rows.shape[1])
        x = self.rows[g * TILE : (g + 1) * TILE]
        sums = np.zeros((TILE, len(picked)), np.float32)
        first = np.full(sums.shape, len(stops) - 1, np.int8)
        begin = 0
        for i, stop in enumerate(stops[:-1]):
            a, b = x[:, begin:stop], picked[:, begin:stop]
            sums += (a**2).sum(1)[:, None] + (b**2).sum(1)[None] - 2 * (a @ b.T)
            bound = sums
            if residual:
                rest_x = np.sqrt((x[:, stop:] ** 2).sum(1))
                rest_y = np.sqrt((picked[:, stop:] ** 2).sum(1))
                bound = sums + (rest_x[:, None] - rest_y[None]) ** 2
            np.minimum(first, np.where(bound > radius**2, i, len(stops) - 1).astype(np.int8), out=first)
            begin = stop
        return first


def pick_pivots(rows):
    """Farthest-first from the mean, among an even sample."""
    sample = rows[:: max(1, len(rows) // 4096)]
    far, picked = (sample**2).sum(1), []
    for _ in range(PIVOTS):
        picked.append(sample[np.argmax(far)])
        far = np.minimum(far, ((sample - picked[-1]) ** 2).sum(1)) if len(picked) > 1 else (
            (sample - picked[-1]) ** 2).sum(1)
    return np.array(picked)


class Count:
    """What one rule leaves."""

    def __init__(self):
        self.pairs = self.dims = self.cost = 0

    def add(self, listed, chosen, first, coarse, fine, stop_cost, outright=None):
        """listed: (TILE, groups). first: by stops of fine, for the chosen groups. coarse: the stops that are used.
        outright: pairs that are out before any dims, at PIVOTS of cost."""
        at = np.searchsorted(coarse, fine[first])
        if outright is not None:
            at = np.where(outright, -1, at)
        column = {g: k for k, g in enumerate(chosen)}
        whole = listed.all(0)
        for g in np.flatnonzero(listed.any(0)):
            rows = at[:, column[g] * TILE : (column[g] + 1) * TILE]
            if not whole[g]:
                rows = rows[listed[:, g]]
                self.pairs += len(rows) * TILE
                pad = -len(rows) % BLOCK_X
                rows = np.concatenate([rows, np.repeat(rows[-1:], pad, 0)])
            else:
                self.pairs += len(rows) * TILE
            last = rows.reshape(-1, BLOCK_X, TILE // BLOCK_Y, BLOCK_Y).max((1, 3)).ravel()
            dims = np.where(last >= 0, coarse[last], 0)
            self.dims += int(dims.sum()) * BLOCK_X * BLOCK_Y
            extra = (last + 1) * stop_cost + (0 if outright is None else PIVOTS)
            self.cost += int((dims + extra).sum()) * BLOCK_X * BLOCK_Y


def radius_of(rows, selectivity, rng):
    queries = rows[rng.choice(len(rows), 200, replace=False)]
    squares = (queries**2).sum(1)[:, None] + (rows**2).sum(1)[None] - 2 * (queries @ rows.T)
    kth = len(queries) * (selectivity + 1)
    return float(np.sqrt(max(0.0, np.partition(squares.ravel(), kth)[kth])))


def measure(rows, selectivities, groups, rng):
    """All rules on one set. rows: binary64, cut to a multiple of TILE."""
    rows = rows[: len(rows) // TILE * TILE]
    rows = rows - rows.mean(0)
    rows = rows[:, np.argsort(-rows.var(0), kind="stable")]
    values, axes = np.linalg.eigh(np.cov(rows.T))
    turned = (rows @ axes[:, ::-1]).astype(np.float32)
    norms = np.sqrt((rows**2).sum(1)).astype(np.float32)
    rows = rows.astype(np.float32)
    order, other = group(rows, norms), group(turned, norms)
    raw, pca, own = Space(rows, order), Space(turned, order), Space(turned, other)
    own_raw = Space(rows, other)
    pivots = pick_pivots(rows)
    to_pivots = np.sqrt(np.maximum(0, ((raw.rows[:, None] - pivots[None]) ** 2).sum(2)))
    low, high = to_pivots.reshape(-1, TILE, PIVOTS).min(1), to_pivots.reshape(-1, TILE, PIVOTS).max(1)
    fine, coarse = stops_of(rows.shape[1], True), stops_of(rows.shape[1], False)
    sampled = np.unique(np.linspace(0, len(raw.low) - 1, groups).astype(int))
    result = []
    for selectivity in selectivities:
        radius = radius_of(rows, selectivity, rng)
        counts = {}

        def add(name, *arguments):
            counts.setdefault(name, Count()).add(*arguments)

        for g in sampled:
            reach = raw.boxes(g, radius) & raw.balls(g, radius)
            reach[g] = False
            listed = raw.queries(g, radius) & reach
            chosen = np.flatnonzero(listed.any(0))
            boxed = listed & pca.boxes(g, radius) & pca.queries(g, radius)
            gap = np.maximum(0, np.maximum(low - high[g], low[g] - high)).max(1)
            pivoted = listed & (gap <= radius)
            plain, rest = (raw.exits(g, fine, radius, r, chosen) for r in (False, True))
            turn, turn_rest = (pca.exits(g, fine, radius, r, chosen) for r in (False, True))
            mine = to_pivots[g * TILE : (g + 1) * TILE]
            theirs = to_pivots.reshape(-1, TILE, PIVOTS)[chosen].reshape(-1, PIVOTS)
            outright = np.zeros(plain.shape, bool)
            for p in range(PIVOTS):
                outright |= np.abs(mine[:, p, None] - theirs[None, :, p]) > radius
            add("today", listed, chosen, plain, coarse, fine, STOP_COST)
            add("today, stops from 8", listed, chosen, plain, fine, fine, STOP_COST)
            add("a: PCA sums", listed, chosen, turn, coarse, fine, STOP_COST)
            add("a: PCA sums, stops from 8", listed, chosen, turn, fine, fine, STOP_COST)
            add("a: and PCA boxes of the same groups", boxed, chosen, turn, fine, fine, STOP_COST)
            add("b: residual norms", listed, chosen, rest, coarse, fine, RESIDUAL_STOP_COST)
            add("b: residual norms, stops from 8", listed, chosen, rest, fine, fine, RESIDUAL_STOP_COST)
            add("c: pivots of groups", pivoted, chosen, plain, coarse, fine, STOP_COST)
            add("c: pivots of groups and rows", pivoted, chosen, plain, coarse, fine, STOP_COST, outright)
            add("a+b: PCA sums, residual norms, stops from 8", listed, chosen, turn_rest, fine, fine, RESIDUAL_STOP_COST)
            add("a+b+c: the last, PCA boxes, pivots of groups", boxed & pivoted, chosen, turn_rest, fine, fine,
                RESIDUAL_STOP_COST)
            reach = own_raw.boxes(g, radius) & own_raw.balls(g, radius)
            reach[g] = False
            listed = own_raw.queries(g, radius) & reach
            chosen = np.flatnonzero(listed.any(0))
            plain = own_raw.exits(g, fine, radius, False, chosen)
            add("groups by PCA, all else as today", listed, chosen, plain, coarse, fine, STOP_COST)
            listed &= own.boxes(g, radius) & own.queries(g, radius)
            add("groups by PCA, boxes of both kinds, sums as today", listed, chosen, plain, coarse, fine, STOP_COST)
            reach = own.boxes(g, radius) & own.balls(g, radius)
            reach[g] = False
            listed = own.queries(g, radius) & reach
            chosen = np.flatnonzero(listed.any(0))
            turn, turn_rest = (own.exits(g, fine, radius, r, chosen) for r in (False, True))
            add("a: groups by PCA, PCA sums", listed, chosen, turn, coarse, fine, STOP_COST)
            add("a: groups by PCA, PCA sums, stops from 8", listed, chosen, turn, fine, fine, STOP_COST)
            add("a+b: groups by PCA, residual norms, stops from 8", listed, chosen, turn_rest, fine, fine,
                RESIDUAL_STOP_COST)
        possible = len(sampled) * TILE * (len(rows) - TILE)
        today = counts["today"]
        result.append({
            "selectivity": selectivity, "radius": radius,
            "rules": {name: {
                "pairs_left": c.pairs / possible,
                "dims_per_pair": c.dims / max(1, c.pairs),
                "work": c.dims / max(1, today.dims),
                "cost": c.cost / max(1, today.cost),
            } for name, c in counts.items()},
        })
    return {"rows": len(rows), "dims": rows.shape[1], "query_groups": len(sampled),
            "variance_of_first_8": {"raw": float(np.var(rows[:, :8], 0).sum() / np.var(rows, 0).sum()),
                                    "pca": float(values[::-1][:8].sum() / values.sum())},
            "joins": result}


def count_pairs(rows, selectivities, groups, rng):
    """Shares of pairs left by boxes of both kinds, of many query groups: cheap, since no distance is computed."""
    rows = rows[: len(rows) // TILE * TILE]
    rows = rows - rows.mean(0)
    rows = rows[:, np.argsort(-rows.var(0), kind="stable")]
    norms = np.sqrt((rows**2).sum(1)).astype(np.float32)
    turned = (rows @ np.linalg.eigh(np.cov(rows.T))[1][:, ::-1]).astype(np.float32)
    rows = rows.astype(np.float32)
    order, other = group(rows, norms), group(turned, norms)
    spaces = {"today": (Space(rows, order),), "today's groups, both boxes": (Space(rows, order), Space(turned, order)),
              "PCA groups, both boxes": (Space(rows, other), Space(turned, other))}
    sampled = range(0, len(rows) // TILE, max(1, len(rows) // TILE // groups))
    result = []
    for selectivity in selectivities:
        radius, left = radius_of(rows, selectivity, rng), {}
        for name, kinds in spaces.items():
            pairs = 0
            for g in sampled:
                listed = kinds[0].balls(g, radius)[None]
                for kind in kinds:
                    listed = listed & kind.boxes(g, radius) & kind.queries(g, radius)
                pairs += int(listed.sum())
            left[name] = pairs / (len(sampled) * len(rows))
        result.append({"selectivity": selectivity, "radius": radius, "query_groups": len(sampled), "pairs_left": left})
    return {"rows": len(rows), "dims": rows.shape[1], "joins": result}


def read_shape(name, rows, command):
    """A data set of the paper's shape, made by the command."""
    shape = rt_hiss_paper.SHAPES[name.removeprefix("shape-")]
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "rows.npy"
        subprocess.run([command, "generate", "mixture", "-o", path, "--rows", str(rows), "--dims", str(shape.dims),
                        "--clusters", str(shape.clusters), "--intrinsic", str(shape.intrinsic),
                        "--spread", str(shape.spread), "--quiet"], check=True)
        return np.load(path).astype(np.float64)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", action="append", default=["data"], help="folder of the data sets; may be given again")
    parser.add_argument("--nearfield", default="build/release/nearfield", help="the command, which generates the shapes")
    parser.add_argument("--sets", default=",".join([s.name for s in bench_sets.SETS] + list(SHAPES)))
    parser.add_argument("--rows", type=int, default=60000, help="most rows of a set, evenly spaced")
    parser.add_argument("--groups", type=int, default=24, help="query groups looked at")
    parser.add_argument("--pairs", action="store_true", help="count only the pairs that boxes leave; allows many groups")
    parser.add_argument("--out", help="JSON file")
    options = parser.parse_args()
    found = {}
    for name in options.sets.split(","):
        if name in SHAPES:
            rows = read_shape(name, options.rows, options.nearfield)
        else:
            data_set = bench_sets.by_name(name)
            path = bench_sets.find_file(data_set, options.data)
            if path is None:
                continue
            rows = bench_sets.read(path)
            rows = rows[:: -(-len(rows) // options.rows)]
        count = count_pairs if options.pairs else measure
        found[name] = count(rows, (2**6, 2**10), options.groups, np.random.default_rng(1))
        for join in found[name]["joins"]:
            print(f"{name}: {found[name]['rows']} x {found[name]['dims']}, selectivity {join['selectivity']}, "
                  f"radius {join['radius']:.6g}")
            for rule, share in join.get("pairs_left", {}).items():
                print(f"  {rule:50} pairs {share:7.4f}", flush=True)
            for rule, c in join.get("rules", {}).items():
                print(f"  {rule:50} pairs {c['pairs_left']:7.4f}  dims {c['dims_per_pair']:6.1f}"
                      f"  work {c['work']:6.3f}  cost {c['cost']:6.3f}", flush=True)
        if options.out:
            result = {"model": "bench/pruning.py", "rows_at_most": options.rows, "selectivities": [2**6, 2**10],
                      "tile": TILE, "pivots": PIVOTS, "stop_cost": STOP_COST,
                      "residual_stop_cost": RESIDUAL_STOP_COST, "sets": found}
            pathlib.Path(options.out).write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
