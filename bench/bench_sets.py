# SPDX-License-Identifier: Apache-2.0
"""The data sets of the benchmarks: where they lie, how another program reads them, which radii are asked for.

The folder is laid out as data/README.md describes it. `first` rows may be taken of any set, by both sides alike."""
import dataclasses
import pathlib

import numpy as np


@dataclasses.dataclass(frozen=True)
class DataSet:
    name: str
    file: str          # below the data folder
    radii: tuple
    many_dims: bool    # where expanded-form libraries are the usual choice, and trees are not


SETS = (
    DataSet("letter", "tabular/letter.csv", (3.0, 5.0), False),
    DataSet("shuttle", "tabular/shuttle.csv", (4.0, 8.0), False),
    DataSet("cities", "cities/cities_xyz_km.npy", (15.0, 50.0), False),
    DataSet("sift", "sift-photos/base.u8bin", (160.0,), True),
    DataSet("glove", "glove-100/base.npy", (2.4,), True),
)

# Ordered pairs with self pairs, and their digest, of whole files: data/README.md, made by another program.
KNOWN = {
    ("letter", 3.0): (376474, 0x438D32CEB146C02D),
    ("letter", 5.0): (2968828, 0x030F821912A2C5D8),
    ("shuttle", 4.0): (3649898, 0xC23286508A745718),
    ("shuttle", 8.0): (43188682, 0xB98919E8FCAF9B1C),
    ("cities", 15.0): (2257291, 0x0D7D38A55E3D1AD8),
    ("cities", 50.0): (16246283, 0x9D3E8F5F3A0B5292),
    ("sift", 160.0): (23200183, 0x9FC2E30E38067757),
    ("glove", 2.4): (75484903, 0x7737B28C7991E2A8),
}


def by_name(name):
    """The set of a name; ValueError for an unknown one."""
    for candidate in SETS:
        if candidate.name == name:
            return candidate
    raise ValueError(f"unknown set '{name}'; known are: {', '.join(s.name for s in SETS)}")


def find_file(data_set, folders):
    """The set's file in the first folder that has it, or None."""
    for folder in folders:
        path = pathlib.Path(folder) / data_set.file
        if path.is_file():
            return path
    return None


def _read_u8bin(path):
    rows, dims = np.fromfile(path, dtype="<u4", count=2)
    return np.fromfile(path, dtype=np.uint8, offset=8).reshape(int(rows), int(dims))


def read(path, first=None):
    """The first rows of a file (all: None), in binary64: no value changes, since every type is narrower."""
    if path.suffix == ".csv":
        values = np.loadtxt(path, delimiter=",", skiprows=1, ndmin=2)
    elif path.suffix == ".u8bin":
        values = _read_u8bin(path)
    else:
        values = np.load(path)
    return np.ascontiguousarray(values[:first], dtype=np.float64)
