# SPDX-License-Identifier: Apache-2.0
"""Brute force with PyTorch: |x|^2 + |y|^2 - 2 x.y by a binary32 matrix product, a threshold, nonzero, ids to the host.

A slice of the queries against all rows, scaled to all queries. The rule is rounded, so its answer may differ from the exact
one near the radius; that is left to it."""
import time

import numpy as np

try:
    import torch
except ImportError:  # the sections that need it are then left out, and say so
    torch = None

BLOCK = 2**30           # distances at a time: 4 GiB
CHUNKS = (1024, 4096, 16384)
GEMM_SIZE = 16384
GEMM_RUNS = 20


def version():
    return torch.__version__ if torch is not None else None


def device_name():
    return "cuda" if torch.cuda.is_available() else "cpu"


def _wait(device):
    if device == "cuda":
        torch.cuda.synchronize()


def forget():
    """Gives the device's memory back."""
    if torch is not None and torch.cuda.is_available():
        torch.cuda.empty_cache()


def _join_chunk(queries, data, norms, squared, self_from, block_rows):
    """Ids of the neighbours of some queries, in host memory, and how many each has; the query itself left out."""
    query_norms = (queries * queries).sum(1)
    ids, counts = [], np.zeros(len(queries), dtype=np.int64)
    for first in range(0, len(data), block_rows):
        block = data[first:first + block_rows]
        distances = torch.addmm(norms[:, first:first + block_rows], queries, block.T, beta=1.0, alpha=-2.0)
        inside = distances <= (squared - query_norms)[:, None]
        del distances
        own_from, own_to = max(self_from, first), min(self_from + len(queries), first + len(block))
        if own_from < own_to:
            own = torch.arange(own_from, own_to, device=data.device)
            inside[own - self_from, own - first] = False
        found = inside.nonzero()
        del inside
        counts += torch.bincount(found[:, 0], minlength=len(queries)).cpu().numpy()
        ids.append((found[:, 1] + first).to(torch.int32).cpu().numpy())
    return ids, counts


def _time_slice(data, norms, radius, chunk, slice_rows):
    """Seconds and pairs of the first slice_rows queries."""
    block_rows = max(BLOCK // chunk, 1)
    kept, pairs = [], 0
    _wait(data.device.type)
    start = time.perf_counter()
    for first in range(0, slice_rows, chunk):
        queries = data[first:min(first + chunk, slice_rows)]
        ids, counts = _join_chunk(queries, data, norms, radius * radius, first, block_rows)
        kept.append(ids)
        pairs += int(counts.sum())
    _wait(data.device.type)
    return time.perf_counter() - start, pairs


class Join:
    """Rows on the device; joins of slices of them."""

    def __init__(self, rows):
        torch.backends.cuda.matmul.allow_tf32 = False
        start = time.perf_counter()
        self.data = torch.from_numpy(rows).to(device_name())
        self.norms = (self.data * self.data).sum(1)[None, :]
        _wait(self.data.device.type)
        self.upload_seconds = time.perf_counter() - start
        self.chunk = None

    def measure(self, radius, slice_rows, runs=3):
        """The time of all queries, from the median of runs on a slice; the chunk that is fastest at the first call stays."""
        rows = len(self.data)
        slice_rows = min(slice_rows, rows)
        if self.chunk is None:
            _time_slice(self.data, self.norms, radius, min(CHUNKS[0], slice_rows), min(CHUNKS[0], slice_rows))
            tried = {chunk: _time_slice(self.data, self.norms, radius, chunk, slice_rows)[0]
                     for chunk in CHUNKS if chunk <= slice_rows}
            self.chunk = min(tried, key=tried.get) if tried else slice_rows
        timed = [_time_slice(self.data, self.norms, radius, self.chunk, slice_rows) for _ in range(runs)]
        seconds = sorted(one[0] for one in timed)[len(timed) // 2]
        return {"runs": [one[0] for one in timed], "slice_rows": slice_rows, "slice_seconds": seconds, "chunk": self.chunk,
                "slice_selectivity": timed[0][1] / slice_rows, "upload_seconds": self.upload_seconds,
                "seconds": self.upload_seconds + seconds * rows / slice_rows, "scaled": slice_rows < rows}

    def close(self):
        self.data = self.norms = None
        forget()


def gemm_rate(dims, size=GEMM_SIZE):
    """Floating-point operations per second of a binary32 product with `dims` as the inner dimension."""
    torch.backends.cuda.matmul.allow_tf32 = False
    device = device_name()
    a, b = torch.rand(size, dims, device=device), torch.rand(size, dims, device=device)
    out = torch.empty(size, size, device=device)
    seconds = []
    for _ in range(GEMM_RUNS):
        _wait(device)
        start = time.perf_counter()
        torch.mm(a, b.T, out=out)
        _wait(device)
        seconds.append(time.perf_counter() - start)
    del a, b, out
    forget()
    return 2.0 * size * size * dims / min(seconds[1:])
