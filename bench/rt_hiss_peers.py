# SPDX-License-Identifier: Apache-2.0
"""Programs beside bench_radius: GDS-Join, and NVIDIA Nsight Compute as a profiler of our refinement kernel."""
import csv
import io
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import time

METRICS = {
    "sm_throughput": "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    "memory_throughput": "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed",
    "global_loads": "smsp__inst_executed_op_global_ld.sum",
    "shared_loads": "smsp__inst_executed_op_shared_ld.sum",
    "shared_load_conflicts": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum",
    "shared_load_wavefronts": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
    "nanoseconds": "gpu__time_duration.sum",
}


def run_limited(command, limit, folder=None):
    """What a command prints, or None with a reason."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit, cwd=folder, check=False)
    except subprocess.TimeoutExpired:
        return None, f"took more than {limit:.0f} s"
    except OSError as error:
        return None, str(error)
    text = done.stdout + done.stderr
    return (text, None) if done.returncode == 0 else (None, f"exit {done.returncode}: {text.strip()[-300:]}")


# ---- GDS-Join ----


def gds_program(folder, dims):
    """The program for a number of dims, which is fixed when it is compiled; None where there is none."""
    path = pathlib.Path(folder) / f"gds_join_{dims}" if folder else None
    return path if path is not None and os.access(path, os.X_OK) else None


def gds_join(program, values, radius, dims, limit):
    """One run: its own time (index left out, as it prints it), the index's, both, and how many pairs (self pairs too)."""
    with tempfile.TemporaryDirectory(prefix="gds-") as folder:
        start = time.perf_counter()
        text, reason = run_limited([str(program), str(values), repr(float(radius)), str(dims), "3"], limit, folder)
        wall = time.perf_counter() - start
        if text is None:
            return {"failed": reason}
        found = re.findall(r"\nTime: ([0-9.]+)", text)
        index = re.findall(r"Time to index[^:]*: ([0-9.]+)", text)
        stats = pathlib.Path(folder) / "gpu_stats.txt"
        parts = stats.read_text(encoding="utf-8").split(",") if stats.exists() else []
        if not found or len(parts) < 4:
            return {"failed": text.strip()[-300:]}
        own, built = float(found[-1]), float(index[-1]) if index else 0.0
        return {"seconds": own + built, "join_seconds": own, "index_seconds": built, "wall_seconds": wall,
                "pairs_with_self": int(parts[3])}


# ---- Nsight Compute ----


def _read_metrics(text):
    """The one kernel of the --page raw --csv output: {metric: number}."""
    lines = [line for line in text.splitlines() if line.startswith('"')]
    rows = list(csv.reader(io.StringIO("\n".join(lines))))
    if len(rows) < 3:
        return {}
    names, values = rows[0], rows[-1]
    out = {}
    for name, value in zip(names, values):
        try:
            out[name] = float(value.replace(",", ""))
        except ValueError:
            continue
    return out


def _numbers(raw, units):
    """Our names for the metrics; a metric that this profiler or device does not have is left out."""
    out = {name: raw[metric] for name, metric in METRICS.items() if metric in raw}
    scale = {"ns": 1.0, "nsecond": 1.0, "us": 1e3, "usecond": 1e3, "ms": 1e6, "msecond": 1e6, "s": 1e9, "second": 1e9}
    if "nanoseconds" in out:
        out["nanoseconds"] *= scale.get(units.get(METRICS["nanoseconds"], "ns"), 1.0)
    return out


def _read_units(text):
    lines = [line for line in text.splitlines() if line.startswith('"')]
    rows = list(csv.reader(io.StringIO("\n".join(lines))))
    return dict(zip(rows[0], rows[1])) if len(rows) > 2 else {}


def profile(command, limit):
    """Metrics of the first refinement kernel that a command starts. Where the profiler does not know one of the metrics it
    refuses all; the first of them, and the loads, are then asked for alone."""
    ncu = shutil.which("ncu") or "/usr/local/cuda/bin/ncu"
    base = [ncu, "--clock-control", "none", "--kernel-name", "regex:refine_kernel", "--launch-count", "1", "--csv", "--page",
            "raw"]
    until = time.monotonic() + limit
    for metrics in (list(METRICS.values()), [METRICS["sm_throughput"], METRICS["global_loads"]]):
        text, reason = run_limited([*base, "--metrics", ",".join(metrics), *command], max(until - time.monotonic(), 1.0))
        numbers = _numbers(_read_metrics(text), _read_units(text)) if text is not None else {}
        if numbers:
            return numbers
        reason = reason or text.strip()[-300:]
    return {"failed": reason}
