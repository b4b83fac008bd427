#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads an index file by docs/formats.md and estimates distances by docs/ivf.md, in binary64: ivf_reference.py.

An independent decoder, which shares nothing with the library but those two documents: what it prints are the values that
test_ivf_golden.c holds. Checksums are not looked at. With --make, inputs and golden files are made first.

    ivf_reference.py DATA_FOLDER                  prints the tables of test_ivf_golden.c
    ivf_reference.py DATA_FOLDER --make COMMAND   makes inputs and files anew (a new version of the format)
"""
import argparse
import pathlib
import subprocess

import numpy as np

MAGIC = b"\x8eNEAR\r\n\x1a"
NAMES = ("rows", "seed", "dims", "padded", "lists", "bits", "metric", "rotation", "wide_ids", "user_ids", "keep_vectors",
         "dtype", "recall_points", "reserved")
DTYPES = (None, "u1", "i1", "<u2", "<i2", "<u4", "<i4", "<u8", "<i8", "<f2", "<f4", "<f8")
L2, IP, COSINE = range(3)
BLOCK = 32
K = 5

# name, data, options of nearfield build
GOLDEN = (
    ("l2", "ivf_data.npy", ["--lists", "5", "--bits", "5", "--keep-vectors"]),
    ("ip", "ivf_data.npy", ["--lists", "3", "--bits", "1", "--metric", "ip", "--recall-rows", "0"]),
    ("cosine", "ivf_data.npy",
     ["--lists", "4", "--bits", "9", "--metric", "cosine", "--rotation", "dense", "--ids", "ivf_ids.npy"]),
)


def number(data, at, size):
    return int.from_bytes(data[at:at + size], "little")


def sections_of(data):
    """Type -> bytes of each section, after a look at the frame."""
    assert data[:8] == MAGIC and data[-32:-24] == MAGIC
    assert number(data, 16, 8) == 0x0102030405060708 and number(data, 24, 8) == len(data)
    count = number(data, 48, 4)
    assert number(data, 52, 4) == 64 + 32 * count
    sections, end = {}, 64 + 32 * count
    for at in range(64, 64 + 32 * count, 32):
        kind, offset, length = number(data, at, 4), number(data, at + 8, 8), number(data, at + 16, 8)
        multiple = 4096 if length > 65536 else 64
        assert offset == -(-end // multiple) * multiple and not any(data[end:offset])
        sections[kind] = data[offset:offset + length]
        end = offset + length
    assert kind == 2**32 - 1 and len(data) == -(-end // 64) * 64 + 64
    return sections


def rotation_fast(signs, padded, rows):
    """Four rounds of signs, a Hadamard transform and Kac's mixing."""
    p = 1 << padded.bit_length() - 1
    transform = np.array([[1.0]])
    while len(transform) < p:
        transform = np.block([[transform, transform], [transform, -transform]])
    transform /= np.sqrt(p)
    flips = np.unpackbits(np.frombuffer(signs, np.uint8), bitorder="little").reshape(4, padded)
    out = np.zeros((len(rows), padded))
    out[:, :rows.shape[1]] = rows
    for turn in range(4):
        out = np.where(flips[turn], -out, out)
        part = slice(0, p) if turn % 2 == 0 else slice(padded - p, padded)
        out[:, part] = out[:, part] @ transform
        if p < padded:
            a, b = out[:, :padded // 2], out[:, padded // 2:]
            out = np.hstack((a + b, a - b)) / np.sqrt(2)
    return out


class Index:
    """The contents of a file: one row of each array per row of the data, in the order of the file."""

    def __init__(self, path):
        data = path.read_bytes()
        self.bytes, self.file_id = len(data), number(data, 32, 8)
        self.sections = sections_of(data)
        params = self.sections[1]
        sizes = [8, 8] + [4] * 12
        starts = np.cumsum([0] + sizes)
        for name, at, size in zip(NAMES, starts, sizes):
            setattr(self, name, number(params, int(at), size))
        assert len(params) == 64 and self.reserved == 0 and self.padded == -(-self.dims // 8) * 8
        self.mean = self.array(2, "<f4", self.dims)
        self.centroids = self.array(4, "<f4", self.lists, self.padded)
        self.starts = np.frombuffer(self.sections[5], "<u8").astype(int)
        assert len(self.starts) == self.lists + 1 and self.starts[0] == 0 and self.starts[-1] == self.rows
        self.list_of = np.repeat(np.arange(self.lists), np.diff(self.starts))
        self.ids = np.frombuffer(self.sections[8], "<u8" if self.wide_ids else "<u4").astype(np.int64)
        assert len(self.ids) == self.rows and len(self.sections.get(9, b"")) == 16 * self.recall_points
        self.recall = np.frombuffer(self.sections.get(9, b""), [("probes", "<u4"), ("zero", "<u4"), ("recall", "<f8")])
        self.read_blocks()
        if self.bits > 1:
            self.read_records()
        assert (10 in self.sections) == bool(self.keep_vectors)

    def array(self, kind, dtype, *shape):
        return np.frombuffer(self.sections[kind], dtype).reshape(shape).astype(np.float64)

    def read_blocks(self):
        """Short codes and their factors."""
        padded = self.padded
        dtype = np.dtype([("codes", "u1", (padded // 8, BLOCK)), ("add", "<f4", BLOCK), ("rescale", "<f4", BLOCK),
                          ("error", "<u2", BLOCK)])
        blocks = np.frombuffer(self.sections[6], dtype)
        self.signs, self.add, self.rescale, self.error = (np.zeros((self.rows, padded)), *np.zeros((3, self.rows)))
        block = 0
        for begin, end in zip(self.starts, self.starts[1:]):
            for first in range(begin, end, BLOCK):
                used = min(BLOCK, end - first)
                here = blocks[block]
                rows = slice(first, first + used)
                self.signs[rows] = np.unpackbits(here["codes"].T[:used].copy(), axis=1, bitorder="little")
                self.add[rows], self.rescale[rows] = here["add"][:used], here["rescale"][:used]
                self.error[rows] = (here["error"][:used].astype("<u4") << 16).view("<f4")
                for name in ("add", "rescale", "error"):
                    assert not here[name][used:].any()
                assert not here["codes"][:, used:].any()
                block += 1
        assert block == len(blocks)

    def read_records(self):
        """Whole codes: their factors take the place of those of the short code."""
        ex_bits = self.bits - 1
        dtype = np.dtype([("add", "<f4"), ("rescale", "<f4"), ("ex", "u1", self.padded // 8 * ex_bits)])
        records = np.frombuffer(self.sections[7], dtype)
        assert len(records) == self.rows
        bits = np.unpackbits(records["ex"], axis=1, bitorder="little").reshape(self.rows, self.padded, ex_bits)
        self.add, self.rescale = records["add"].astype(float), records["rescale"].astype(float)
        self.signs = self.signs * 2**ex_bits + bits @ 2.0**np.arange(ex_bits)

    def rotate(self, rows):
        if self.rotation == 0:
            return rotation_fast(self.sections[3], self.padded, rows)
        return rows @ self.array(3, "<f4", self.padded, self.padded)[:, :self.dims].T

    def distances(self, queries):
        """Estimated distances, queries x rows."""
        queries = queries.astype(np.float64)
        if self.metric == COSINE:
            queries = queries / np.linalg.norm(queries, axis=1, keepdims=True)
        mean = self.rotate(self.mean[None])
        factors = np.ones((len(queries), 1))
        if self.metric == IP:
            squares = ((self.centroids + mean)**2).sum(axis=1) @ np.diff(self.starts) / self.rows
            factors = np.sqrt(squares) / np.linalg.norm(queries, axis=1, keepdims=True)
        q = self.rotate(queries * factors - self.mean)
        y = self.signs - (2**self.bits - 1) / 2
        if self.metric == L2:
            g_add = ((q[:, None] - self.centroids)**2).sum(axis=2)
        else:
            g_add = -(q + mean) @ (self.centroids + mean).T
        values = (self.add + g_add[:, self.list_of] + self.rescale * (q @ y.T)) / factors
        if self.metric == L2:
            return np.sqrt(np.maximum(values, 0))
        return np.clip(1 + values, 0, 2) if self.metric == COSINE else values


def exact(metric, data, queries):
    data, queries = data.astype(np.float64), queries.astype(np.float64)
    if metric == L2:
        return np.linalg.norm(queries[:, None] - data, axis=2)
    if metric == COSINE:
        data, queries = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (data, queries))
    return -(queries @ data.T) if metric == IP else 1 - queries @ data.T


def show(name, index, ids, distances):
    """One entry of the table of the C test."""
    print(f'    {{.name = "{name}",')
    print(f"     .bytes = {index.bytes}, .file_id = UINT64_C({index.file_id:#018x}),")
    print(f"     .ids = {{{', '.join(map(str, ids.ravel()))}}},")
    print(f"     .distances = {{{', '.join(f'{x:.6g}' for x in distances.ravel())}}}}},")


def tables(folder):
    data, queries = np.load(folder / "ivf_data.npy"), np.load(folder / "ivf_queries.npy")
    given = np.load(folder / "ivf_ids.npy").ravel()
    for name, _, options in GOLDEN:
        index = Index(folder / f"ivf_v1_0_{name}.nfi")
        estimates = index.distances(queries)
        order = np.argsort(estimates, axis=1)[:, :K + 1]
        near = np.take_along_axis(estimates, order, axis=1)
        gaps = np.diff(near) / np.abs(near[:, 1:])
        rows = np.argsort(given)[np.searchsorted(np.sort(given), index.ids)] if index.user_ids else index.ids
        assert sorted(rows) == list(range(len(data)))
        if index.keep_vectors:
            kept = np.frombuffer(index.sections[10], DTYPES[index.dtype]).reshape(index.rows, index.dims)
            assert (kept == data[rows]).all()
        deviation = estimates - exact(index.metric, data[rows], queries)
        print(f"/* {name}: gaps between neighbours at least {gaps.min():.2g}; estimates less exact distances: "
              f"root mean square {np.sqrt((deviation**2).mean()):.2g}; recall {index.recall.tolist()};"
              f" {dict((n, getattr(index, n)) for n in NAMES)} */")
        show(name, index, index.ids[order[:, :K]], near[:, :K])


def make(folder, command):
    random = np.random.default_rng(5)
    centres = random.uniform(0, 4, (6, 20))
    data = centres[random.integers(0, 6, 100)] + random.normal(0, 0.5, (100, 20))
    queries = centres[random.integers(0, 6, 4)] + random.normal(0, 0.7, (4, 20))
    np.save(folder / "ivf_data.npy", data.astype("<f4"))
    np.save(folder / "ivf_queries.npy", queries.astype("<f4"))
    np.save(folder / "ivf_ids.npy", (random.permutation(100) * 12345678901).astype("<i8")[:, None])
    for name, source, options in GOLDEN:
        subprocess.run([command, "build", source, "-o", f"ivf_v1_0_{name}.nfi", "-q", "--isa", "scalar",
                        "--threads", "1", *options], cwd=folder, check=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path, help="tests/data")
    parser.add_argument("--make", metavar="COMMAND", help="make inputs and files by this command first")
    arguments = parser.parse_args()
    if arguments.make:
        make(arguments.folder, arguments.make)
    tables(arguments.folder)


if __name__ == "__main__":
    main()
