# SPDX-License-Identifier: Apache-2.0
"""What machine this is, and what it reaches: the rates that a result can be held against."""
import concurrent.futures
import os
import pathlib
import platform
import subprocess
import time

import numpy as np

GEMM_SIZE = 4096
COPY_BYTES = 256 << 20
TRIES = 3


def cores():
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0))


def _first_line(path, key):
    for line in pathlib.Path(path).read_text(encoding="utf-8").splitlines():
        if line.startswith(key):
            return line.split(":", 1)[1].strip()
    return ""


def describe():
    """Processor, cores, memory, system, load."""
    return {
        "cpu": _first_line("/proc/cpuinfo", "model name"),
        "cores": cores(),
        "memory_bytes": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "load_before": os.getloadavg()[0],
    }


def commit(root):
    """The commit of a source tree, with "+changes" where files differ from it; "" without git."""
    def git(*arguments):
        done = subprocess.run(["git", "-C", root, *arguments], capture_output=True, text=True, check=False)
        return done.stdout.strip() if done.returncode == 0 else ""

    name = git("rev-parse", "HEAD")
    return name + ("+changes" if name and git("status", "--porcelain", "--untracked-files=no") else "")


def memory_free():
    """Bytes that can be allocated without swapping."""
    return int(_first_line("/proc/meminfo", "MemAvailable").split()[0]) << 10


def _best_seconds(work):
    seconds = []
    for _ in range(TRIES + 1):  # the first warms up
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return min(seconds[1:])


def gemm_rate():
    """Floating-point operations per second of a product of binary32 matrices, on all cores, by NumPy's BLAS."""
    random = np.random.default_rng(1)
    a = random.random((GEMM_SIZE, GEMM_SIZE), dtype=np.float32)
    b = random.random((GEMM_SIZE, GEMM_SIZE), dtype=np.float32)
    out = np.empty_like(a)
    return 2.0 * GEMM_SIZE**3 / _best_seconds(lambda: np.matmul(a, b, out=out))


def copy_rate():
    """Bytes read and written per second, by one copying thread per core."""
    count = cores()
    source = np.ones((count, COPY_BYTES // count), dtype=np.uint8)
    target = np.zeros_like(source)
    with concurrent.futures.ThreadPoolExecutor(count) as pool:
        seconds = _best_seconds(lambda: list(pool.map(np.copyto, target, source)))
    return 2.0 * source.nbytes / seconds
