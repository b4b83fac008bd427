# SPDX-License-Identifier: Apache-2.0
"""The sections of rt_hiss_tables.py: what is measured for each table and figure. rt_hiss_print.py prints them."""
import dataclasses
import pathlib

import rt_hiss_paper as paper
import rt_hiss_peers
import rt_hiss_program
import rt_hiss_torch

NO_DISTANCES = {"distances": "none"}
SMALL = ("wec", "msd")
SLICE_PAIRS = 5e10          # (query, row) pairs of PyTorch's slice
METHOD_ROWS = 1_000_000     # rows at which methods are held against each other: also all pairs end in seconds
GDS_SECONDS = 35            # of one run of GDS-Join, reading included
SHARE_QUERIES = 20_000      # queries that say what a method prunes of a whole set


def _about(bench, shape, level):
    return {"set": shape.name, "like": shape.like, "level": level, "data": shape.generator(bench.rows(shape)),
            "paper_rows": shape.paper_rows, "wanted": bench.selectivity(shape, level)}


def _remove(path):
    pathlib.Path(path).unlink(missing_ok=True)


# ---- Table V ----


def table5(bench):
    """d = 3: uniform and exponential data, the paper's own rows and radius."""
    rows = bench.options.rows or 5_000_000
    for kind, entry in paper.TABLE_V.items():
        radius = entry["radius"] * (5_000_000 / rows) ** (1.0 / 3.0)
        with bench.open(f"{kind}:{rows}:3") as program:
            about = {"set": kind, "level": "s", "data": f"{kind}:{rows}:3"}
            bench.time(program, "table5", radius, NO_DISTANCES, runs=5, limit=30, variant="auto", **about)
            for candidates in ("rt", "bvh", "boxes"):
                bench.time(program, "table5", radius, {**NO_DISTANCES, "candidates": candidates}, runs=3, limit=20,
                           variant=candidates, **about)
            bench.time(program, "table5", radius, {"counts": 1}, runs=3, limit=20, variant="counts", **about)


# ---- Table IV ----


def _join_levels(bench, section, shape, levels, runs):
    """Our joins of one set at its radii; the data's values are saved for the peers where there are some."""
    with bench.open_shape(shape) as program:
        radii = {level: bench.radius(program, shape, level) for level in levels}
        for level in levels:
            options = NO_DISTANCES | bench.results_kind(shape, level)
            bench.time(program, section, radii[level], options, runs=runs, limit=20, **_about(bench, shape, level))
        if rt_hiss_torch.torch is None:
            return radii, None, None
        path, values = bench.values(program, shape)
    return radii, path, values


def _torch_levels(bench, section, shape, radii, values):
    """PyTorch on the same values."""
    slice_rows = max(int(SLICE_PAIRS / len(values)) // 1024 * 1024, min(1024, len(values)))
    join = rt_hiss_torch.Join(values)
    for level, radius in radii.items():
        bench.limit(1.0)
        bench.add(section, who="torch", **_about(bench, shape, level), radius=radius, rows=len(values),
                  **join.measure(radius, slice_rows))
    join.close()


def _compare(bench, section, names, levels, runs):
    def work(shape):
        radii, path, values = _join_levels(bench, section, shape, levels, runs)
        if path is not None:
            try:
                _torch_levels(bench, section, shape, radii, values)
            finally:
                _remove(path)

    bench.each(section, names, work)


def goal(bench):
    """The clustered sets, of which at least 95 % is pruned, beside PyTorch."""
    _compare(bench, "goal", paper.GOALS, ("s", "m"), 3)


def table4(bench):
    """All sets at three radii, beside PyTorch and what the paper prints."""
    _compare(bench, "table4", ("wec", "msd", "sift"), tuple(paper.LEVELS), 3)


def table4_large(bench):
    """The same for the large sets; those that prune little take minutes."""
    _compare(bench, "table4", ("bigcross", "susy", "higgs"), ("l", "m", "s"), 1)


def gds(bench):
    """GDS-Join (Gowanlock and Karsin), compiled by hand for the sets' dims, on the same values and machine."""
    def work(shape):
        program_file = rt_hiss_peers.gds_program(bench.options.gds, shape.dims)
        if program_file is None:
            return
        with bench.open_shape(shape) as program:
            levels = tuple(paper.LEVELS) if shape.name in SMALL else ("s",)
            radii = {level: bench.radius(program, shape, level) for level in levels}
            path, _ = bench.values(program, shape)
        for level, radius in radii.items():
            done = rt_hiss_peers.gds_join(program_file, path, radius, shape.dims, bench.limit(GDS_SECONDS))
            bench.add("gds", who="gds-join", **_about(bench, shape, level), radius=radius, rows=bench.rows(shape), **done)
            if "failed" in done:
                break
        _remove(path)

    bench.each("gds", ("wec", "msd", "susy-clustered", "higgs-clustered", "bigcross"), work)


# ---- candidates, Table VI ----


def candidates(bench):
    """Ray tracing, a BVH, boxes in all dims, and all pairs, against each other: counts of the first million rows."""
    def work(whole):
        shape = dataclasses.replace(whole, rows=min(whole.rows, METHOD_ROWS))
        with bench.open_shape(shape) as program:
            radius = bench.radius(program, shape, "l")
            for method in ("auto", "boxes", "bvh", "rt", "none"):
                runs = 1 if shape.name == "sift" else 2
                bench.time(program, "candidates", radius, {"counts": 1, "candidates": method}, runs=runs, limit=20,
                           variant=method, **_about(bench, shape, "l"))

    bench.each("candidates", ("wec", "msd", "susy-clustered", "bigcross", "higgs-clustered", "sift", "susy", "higgs"), work)


def table6(bench):
    """What each method prunes of whole sets at the large radius. bvh and rt look up one query at a time, so that a sample of
    queries says it; boxes compare groups, which takes the whole join."""
    def work(shape):
        with bench.open_shape(shape) as program:
            radius = bench.radius(program, shape, "l")
            sample = {"first_queries": min(SHARE_QUERIES, bench.rows(shape))}
            for method in ("bvh", "rt"):
                bench.time(program, "table6", radius, {"counts": 1, "candidates": method, **sample}, limit=15,
                           variant=method, **_about(bench, shape, "l"))
            bench.time(program, "table6", radius, {"counts": 1, "candidates": "boxes"}, limit=20, variant="boxes",
                       **_about(bench, shape, "l"))

    bench.each("table6", ("wec", "msd", "bigcross", "susy-clustered", "higgs-clustered", "sift", "susy", "higgs"), work)


# ---- the paper's variants ----


def figure8(bench):
    """Table II, first study: what refinement stages in shared memory."""
    def work(shape):
        with bench.open_shape(shape) as program:
            radius = bench.radius(program, shape, "m")
            for name, share in paper.SHARES.items():
                bench.time(program, "figure8", radius, {"counts": 1, "share": share}, runs=2, limit=20, variant=name,
                           **_about(bench, shape, "m"))

    bench.each("figure8", ("wec", "msd", "susy-clustered", "bigcross"), work)


def figure9(bench):
    """Table II, second study, and Table III: how results are kept on the device, with as much memory as the paper's card."""
    def work(shape):
        with bench.open_shape(shape) as program:
            for level in ("l", "m") if shape.name in SMALL else ("m",):
                radius = bench.radius(program, shape, level)
                for name, result in paper.RESULTS.items():
                    options = {**NO_DISTANCES, **bench.results_kind(shape, level), "result": result,
                               "gpu_memory": bench.options.card_memory}
                    bench.time(program, "figure9", radius, options, runs=2, limit=25, variant=name,
                               **_about(bench, shape, level))

    bench.each("figure9", ("wec", "msd", "susy-clustered"), work)


def figure6(bench):
    """Height of the kd-tree. Groups are larger than a tile at low heights and smaller at high ones."""
    def work(shape):
        with bench.open_shape(shape) as program:
            radius = bench.radius(program, shape, "m")
            for method in ("auto", "bvh"):
                for height in (0, *range(10, 19)):
                    if height and 2**height > bench.rows(shape):
                        continue
                    bench.time(program, "figure6", radius, {"counts": 1, "candidates": method, "height": height}, limit=8,
                               variant=f"{method}, height {height or 'default'}", height=height, **_about(bench, shape, "m"))

    bench.each("figure6", ("wec", "msd", "susy-clustered"), work)


def figure7(bench):
    """One box per point, as other methods with ray tracing have, against one per group."""
    def work(shape):
        with bench.open_shape(shape) as program:
            radius = bench.radius(program, shape, "m")
            for method in ("bvh", "rt"):
                for size in (0, 1):
                    bench.time(program, "figure7", radius, {"counts": 1, "candidates": method, "group_size": size}, limit=20,
                               variant=f"{method}, {'a point' if size else 'a group'}", group_size=size,
                               **_about(bench, shape, "m"))

    bench.each("figure7", SMALL, work)


def table7(bench):
    """Nsight Compute on the first refinement kernel: everything staged in shared memory, and nothing."""
    def work(shape):
        rows = min(bench.rows(shape), bench.options.profile_rows)
        with bench.open_shape(shape) as program:
            radius = bench.radius(program, shape, "l")
        for name in ("both", "none"):
            options = {"engine": bench.options.engine, "counts": 1, "share": paper.SHARES[name]}
            command = [str(bench.options.program), shape.generator(rows), repr(radius),
                       *rt_hiss_program.option_words(options)]
            done = rt_hiss_peers.profile(command, bench.limit(40))
            about = _about(bench, shape, "l") | {"data": shape.generator(rows)}
            bench.add("table7", who="nearfield", **about, radius=radius, rows=rows, variant=name, **done)

    bench.each("table7", ("susy-clustered", "msd", "wec", "sift", "bigcross", "higgs-clustered"), work)


# ---- arithmetic ----


def unpruned(bench):
    """All pairs of 1M x 128, every dimension of every pair, beside a binary32 product of the same inner dimension."""
    rows = bench.options.rows or 1_000_000
    data = f"uniform:{rows}:128"
    with bench.open(data) as program:
        record = bench.time(program, "unpruned", 3.2, {"counts": 1, "candidates": "none", "early_exit": 0}, runs=3, limit=25,
                            variant="all dims of all pairs", set="uniform", data=data)
        if "seconds" in record:
            record["flops"] = 2.0 * 128 * rows * (rows - 1) / 2 / record["seconds"]
            record["refine_flops"] = 2.0 * 128 * rows * (rows - 1) / 2 / record["steps"]["refine"]
    if rt_hiss_torch.torch is not None:
        bench.add("unpruned", who="torch", variant="binary32 product, K = 128", set="uniform",
                  flops=rt_hiss_torch.gemm_rate(128, 16384 if bench.options.rows is None else 512))


SECTIONS = {"table5": table5, "goal": goal, "unpruned": unpruned, "table4": table4, "candidates": candidates,
            "figure8": figure8, "figure9": figure9, "gds": gds, "table7": table7, "table6": table6, "figure7": figure7,
            "figure6": figure6, "table4_large": table4_large}
