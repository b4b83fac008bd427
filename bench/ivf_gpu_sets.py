# SPDX-License-Identifier: Apache-2.0
"""The sets of the benchmark of IVF-RaBitQ on GPUs, their right answers, and recall.

Generated sets have the rows and dims of the sets of arXiv:2602.23999, not their values. A row is

    x = c_j + s_j A_j z / sqrt(m) + t e / sqrt(D)

c_j: centre of cluster j, normal, of length about 1; A_j: a D x m matrix of normal values, columns of length about 1, so a
cluster is a Gaussian on an affine subspace of m dims; z, e: standard normal, of m and D values; s_j = s 2^u, u uniform in
[-1/2, 1/2]; t: length of the noise in all dims. Clusters have equally many rows, in random order. Queries are drawn from the
same distribution by another seed. c, A and s come from seed SEED, slice number i of the rows from SEED + 1 + i, the queries
from SEED - 1. The values depend on PyTorch's generator, so on the kind of the device.

The sets "sift-photos" (8-bit) and "glove" (binary16, cosine) are real; data/README.md describes them, and the environment
variable NEARFIELD_DATA names the folder that holds them."""
import dataclasses
import math
import os
import pathlib

import numpy as np
import torch

SEED = 20260
SLICE_ROWS = 1 << 17
QUERIES = 10_000
K = 10
CANDIDATES = 32          # per query, of which binary64 finds the K nearest
BLOCK_ROWS = 1 << 16     # of the data, while the right answer is found
QUERY_BLOCK = 2_000
PAIR_VALUES = 1 << 26    # values of differences held at a time
TIE = 1e-9               # relative: so little farther than the true K-th still counts
ROUNDING = 1e-5          # relative error allowed to binary32 before a query is called open


@dataclasses.dataclass(frozen=True)
class Shape:
    """A set. like: the paper's set; clusters, intrinsic, spread, noise: J, m, s, t of the formula."""
    name: str
    like: str
    rows: int
    dims: int
    lists: int
    clusters: int = 0
    intrinsic: int = 0
    spread: float = 0.0
    noise: float = 0.0
    metric: str = "l2"
    base: str = ""          # files below NEARFIELD_DATA
    queries: str = ""


SHAPES = {shape.name: shape for shape in (
    Shape("sift", "SIFT", 1_000_000, 128, 4096, 16, 16, 1.0, 0.2),
    Shape("gist", "GIST", 1_000_000, 960, 4096, 16, 16, 1.0, 0.5),
    Shape("deep", "DEEP", 10_000_000, 96, 16384, 32, 16, 1.0, 0.2),
    Shape("wiki", "Wiki", 5_000_000, 768, 16384, 64, 16, 1.0, 0.5),
    Shape("openai", "OpenAI", 1_000_000, 1536, 4096, 16, 18, 1.0, 0.5),
    Shape("sift-photos", "", 288_511, 128, 1024, base="sift-photos/base.u8bin", queries="sift-photos/query.u8bin"),
    Shape("glove", "", 331_479, 100, 1024, metric="cosine", base="glove-100/base.npy", queries="glove-100/query.npy"),
)}


# ---- values ----


class Generator:
    """Draws rows of a shape on a device."""

    def __init__(self, shape, device):
        self.shape, self.device = shape, device
        random = self._random(SEED)
        clusters, dims, intrinsic = shape.clusters, shape.dims, shape.intrinsic
        self.centres = self._normal(random, clusters, 1, dims) / math.sqrt(dims)
        power = torch.rand(clusters, 1, 1, generator=random, device=device) - 0.5
        scale = shape.spread * 2.0**power / math.sqrt(dims * intrinsic)
        self.planes = self._normal(random, clusters, intrinsic, dims) * scale

    def _random(self, seed):
        return torch.Generator(device=self.device).manual_seed(seed)

    def _normal(self, random, *size):
        return torch.randn(*size, generator=random, device=self.device)

    def draw(self, rows, seed):
        """Rows in binary32 on the device."""
        shape, random = self.shape, self._random(seed)
        each = -(-rows // shape.clusters)
        z = self._normal(random, shape.clusters, each, shape.intrinsic)
        values = torch.baddbmm(self.centres.expand(-1, each, -1), z, self.planes)
        values += self._normal(random, shape.clusters, each, shape.dims) * (shape.noise / math.sqrt(shape.dims))
        order = torch.randperm(shape.clusters * each, generator=random, device=self.device)[:rows]
        return values.reshape(-1, shape.dims)[order]


def generate(shape, rows, queries, device):
    """Base and queries in host memory."""
    torch.backends.cuda.matmul.allow_tf32 = False
    generator = Generator(shape, device)
    base = torch.empty(rows, shape.dims)
    for number, first in enumerate(range(0, rows, SLICE_ROWS)):
        part = base[first:first + SLICE_ROWS]
        part.copy_(generator.draw(len(part), SEED + 1 + number))
    return base, generator.draw(queries, SEED - 1).cpu()


def _read(path):
    """A .npy or .u8bin file as a tensor in the type that it is stored in."""
    if path.suffix != ".u8bin":
        return torch.from_numpy(np.load(path))
    rows, dims = np.fromfile(path, dtype="<u4", count=2)
    return torch.from_numpy(np.fromfile(path, dtype=np.uint8, offset=8).reshape(int(rows), int(dims)))


def available(shape):
    """Whether the set can be made, or read, here."""
    folder = os.environ.get("NEARFIELD_DATA")
    return not shape.base or bool(folder) and (pathlib.Path(folder) / shape.base).is_file()


class Data:
    """Values of a set in host memory, and a copy on the device for the right answer. With a GPU queries are pinned."""

    def __init__(self, shape, device, rows=None, queries=None):
        self.shape, self.device = shape, device
        if shape.base:
            folder = pathlib.Path(os.environ["NEARFIELD_DATA"])
            self.base, self.queries = _read(folder / shape.base)[:rows], _read(folder / shape.queries)[:queries or QUERIES]
        else:
            self.base, self.queries = generate(shape, min(rows or shape.rows, shape.rows), queries or QUERIES, device)
        self.base, self.queries = self.base.contiguous(), self.queries.contiguous()
        if device == "cuda":
            self.queries = self.queries.pin_memory()
            self.copy, self.query_copy = self.base.to(device), self.queries.to(device)
        else:
            self.copy, self.query_copy = self.base, self.queries
        self.kth, self.open_queries = None, None

    @property
    def rows(self):
        return len(self.base)

    @property
    def bytes(self):
        return self.base.numel() * self.base.element_size()

    def judge(self):
        """Finds the right answer, once."""
        if self.kth is None:
            self.kth, self.open_queries = kth_squares(self)

    def recall(self, ids):
        """Share of the ids (queries x K) that are no farther than the true K-th; each row counts once."""
        ids = torch.as_tensor(ids).to(self.device).sort(dim=1).values
        again = torch.zeros_like(ids, dtype=torch.bool)
        again[:, 1:] = ids[:, 1:] == ids[:, :-1]
        squares = exact_squares(self, ids.clamp(min=0))
        good = (squares <= (self.kth * (1.0 + TIE) ** 2)[:, None]) & (ids >= 0) & ~again
        return good.sum().item() / ids.numel()


# ---- the right answer ----


def _unit(rows, metric):
    """Under cosine rows of length 1: squared distances then rank alike. A row of zeros stays as it is."""
    if metric != "cosine":
        return rows
    lengths = rows.norm(dim=1, keepdim=True)
    return rows / torch.where(lengths > 0, lengths, 1.0)


def exact_squares(data, ids):
    """Squared distances in binary64 from each query to rows of given numbers."""
    metric, out = data.shape.metric, torch.empty(ids.shape, dtype=torch.float64, device=ids.device)
    step = max(PAIR_VALUES // (ids.shape[1] * data.base.shape[1]), 1)
    for first in range(0, len(ids), step):
        part = ids[first:first + step]
        rows = _unit(data.copy[part.reshape(-1)].double(), metric).reshape(*part.shape, -1)
        points = _unit(data.query_copy[first:first + step].double(), metric)
        out[first:first + step] = (rows - points[:, None, :]).square().sum(dim=2)
    return out


def _candidates(data, queries, count):
    """Numbers and squared distances in binary32 of the nearest rows of some queries; the error that binary32 may have."""
    metric = data.shape.metric
    shift = _unit(data.copy[:BLOCK_ROWS].float(), metric).mean(dim=0)
    points = _unit(queries.float(), metric) - shift
    lengths, longest = points.square().sum(dim=1, keepdim=True), 0.0
    best, ids = None, None
    for first in range(0, data.rows, BLOCK_ROWS):
        rows = _unit(data.copy[first:first + BLOCK_ROWS].float(), metric) - shift
        norms = rows.square().sum(dim=1)
        longest = max(longest, norms.max().item())
        squares = torch.addmm(norms[None, :], points, rows.T, alpha=-2.0).add_(lengths)
        found, places = squares.topk(min(count, len(rows)), dim=1, largest=False)
        del squares
        best = found if best is None else torch.cat((best, found), 1)
        ids = places + first if ids is None else torch.cat((ids, places + first), 1)
        best, order = best.topk(min(count, best.shape[1]), dim=1, largest=False)
        ids = ids.gather(1, order)
    return ids, best, ROUNDING * (longest + lengths[:, 0].double())


def _kth_of_all(data, query):
    """The true K-th squared distance of one query, all rows compared in binary64."""
    metric, best = data.shape.metric, []
    point = _unit(data.query_copy[query:query + 1].double(), metric)
    for first in range(0, data.rows, BLOCK_ROWS):
        squares = (_unit(data.copy[first:first + BLOCK_ROWS].double(), metric) - point).square().sum(dim=1)
        best.append(squares.topk(min(K, len(squares)), largest=False).values)
    best = torch.cat(best)
    return best.topk(min(K, len(best)), largest=False).values[-1]


def kth_squares(data):
    """The true K-th squared distance of each query in binary64, and how many queries binary32 left open."""
    torch.backends.cuda.matmul.allow_tf32 = False
    count, found, still_open = min(CANDIDATES, data.rows), [], []
    for first in range(0, len(data.query_copy), QUERY_BLOCK):
        ids, rough, error = _candidates(data, data.query_copy[first:first + QUERY_BLOCK], count)
        found.append((ids, rough[:, -1].double(), error))
    ids, farthest, error = (torch.cat(parts) for parts in zip(*found))
    kth = exact_squares(data, ids).topk(min(K, count), dim=1, largest=False).values[:, -1]
    if count < data.rows:
        still_open = (farthest - kth <= error).nonzero()[:, 0].tolist()
    for query in still_open:
        kth[query] = _kth_of_all(data, query)
    return kth, len(still_open)
