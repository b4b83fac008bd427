# SPDX-License-Identifier: Apache-2.0
"""Answers as sets of pairs, and how two of them differ.

A pair (i, j) is the number i * 2^32 + j. An answer is a sorted array of such numbers, so that two answers are compared
exactly, pair by pair."""
import dataclasses

import numpy as np

BLOCK = 1 << 22


@dataclasses.dataclass(frozen=True)
class Difference:
    missing: int  # pairs of the right answer that are not there
    false: int    # pairs that do not belong there


def keys_of_rows(indptr, indices, first_row=0):
    """Keys of compressed sparse rows, in the order they are in."""
    lengths = np.diff(np.asarray(indptr).astype(np.int64))
    rows = np.arange(first_row, first_row + len(lengths), dtype=np.uint64)
    keys = np.repeat(rows << np.uint64(32), lengths)
    keys |= np.asarray(indices).astype(np.uint64)
    return keys


def keys_of_pairs(pairs):
    """Keys of an array of two columns."""
    return (pairs[:, 0].astype(np.uint64) << np.uint64(32)) | pairs[:, 1].astype(np.uint64)


def compare(right, other):
    """How a sorted answer differs from the right one. A pair that is there twice is false once."""
    if np.array_equal(right, other):
        return Difference(0, 0)
    common = 0
    for begin in range(0, len(right), BLOCK):
        block = right[begin : begin + BLOCK]
        at = np.searchsorted(other, block)
        inside = at < len(other)
        common += int(np.count_nonzero(other[at[inside]] == block[inside]))
    return Difference(len(right) - common, len(other) - common)


def compare_counts(right, other):
    """The same for numbers of neighbours per row: sums of what is too few and of what is too many."""
    difference = np.asarray(other).astype(np.int64) - np.asarray(right).astype(np.int64)
    return Difference(int(-difference[difference < 0].sum()), int(difference[difference > 0].sum()))


def digest(keys):
    """Sum modulo 2^64 of one SplitMix64 step of every key (data/README.md)."""
    total = 0
    for begin in range(0, len(keys), BLOCK):
        x = keys[begin : begin + BLOCK] + np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        total += int((x ^ (x >> np.uint64(31))).sum(dtype=np.uint64))
    return total % (1 << 64)
