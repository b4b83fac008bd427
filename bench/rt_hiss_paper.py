# SPDX-License-Identifier: Apache-2.0
"""What RT-HiSS (arXiv:2609.01975) prints, and data of the shapes that it names.

The paper's data sets are not ours to give out; the data here are Gaussian mixtures of the same rows and dims, generated. In
each, intrinsic dims are about the growth exponent that the paper's radii show (ln 4 / ln of the ratio of two radii), and the
number of clusters is chosen so that about as much is pruned as in Table VI. The sets named "clustered" have more clusters:
there at least 95 % of all comparisons are pruned."""
import dataclasses

LEVELS = {"s": 2**8, "m": 2**10, "l": 2**12}  # selectivity: neighbours per query, itself not counted

# Seconds at small, medium, large radius; None: over 60,000 s. Higgs, large: printed "1,81.49", 1,818.49 by its ratios.
# COSS's BigCross row is printed equal to its SuSy row.
TABLE_IV = {
    "wec": {"RT-HiSS": (1.16, 1.67, 2.71), "GDS-Join": (1.51, 3.27, 7.10), "COSS": (1.93, 2.92, 1.82),
            "cuVS": (14.88, 14.88, 14.88)},
    "msd": {"RT-HiSS": (3.18, 4.41, 7.24), "GDS-Join": (5.48, 9.66, 19.80), "COSS": (5.00, 7.38, 15.75),
            "cuVS": (49.20, 49.20, 49.20)},
    "susy": {"RT-HiSS": (74.48, 117.31, 195.39), "GDS-Join": (52.14, 122.55, 424.32), "COSS": (94.63, 196.50, 488.61),
             "cuVS": (9616.54, 9616.54, 9616.54)},
    "bigcross": {"RT-HiSS": (23.20, 37.87, 67.90), "GDS-Join": (37.55, 143.88, 623.97), "COSS": (94.63, 196.50, 488.61),
                 "cuVS": (54943.70, 54943.70, 54943.70)},
    "higgs": {"RT-HiSS": (775.55, 1139.14, 1818.49), "GDS-Join": (1801.58, 2101.15, 2819.33),
              "COSS": (3362.11, 3292.26, 4460.49), "cuVS": (46551.90, 46551.90, 46551.90)},
    "sift": {"RT-HiSS": (7169.15, 8070.70, 9134.09), "GDS-Join": (7732.33, 9232.53, 11290.50),
             "COSS": (None, None, None), "cuVS": (43250.30, 43250.30, 43250.30)},
}
TABLE_V = {"uniform": {"radius": 0.023206, "RT-HiSS": 4.58, "RTNN": 8.62},
           "exponential": {"radius": 0.001170, "RT-HiSS": 7.10, "RTNN": 8.54}}
# Batches at the large radius: compressed mask (the uncompressed one takes as many), key-value pairs.
TABLE_III = {"wec": (1, 13), "msd": (1, 47), "susy": (100, 5563), "bigcross": (16, 860), "higgs": (896, 50791),
             "sift": (1638, 91621)}
# Share of comparisons pruned at the large radius: RT-HiSS, GDS-Join.
TABLE_VI = {"wec": (0.764, 0.744), "msd": (0.717, 0.679), "susy": (0.647, 0.712), "bigcross": (0.992, 0.990),
            "higgs": (0.379, 0.008), "sift": (0.0, 0.0)}
# Compute throughput, and global memory loads in billions: RT-HiSS, Shared-None.
TABLE_VII = {"wec": (0.7275, 0.2897, 1.18, 27.16), "msd": (0.6100, 0.2645, 7.22, 92.76),
             "susy": (0.7781, 0.3782, 0.72, 37.43), "bigcross": (0.6023, 0.2366, 3.41, 43.98),
             "higgs": (0.8422, 0.2790, 0.93, 56.38), "sift": (0.5327, 0.1228, 12.85, 89.49)}
# Means over all sets and radii. Figure 7's is the gain of groups against one primitive per point.
FIGURE_7 = {"mean": 42.4, "least": 16.2, "most": 130.6}
FIGURE_8 = {"points": 2.64, "both": 2.12}  # gain over Shared-None
FIGURE_9 = {"mask against key-value": 1.65, "compressed against uncompressed": 1.24}
FIGURE_10 = {"CUDA cores": 0.5954, "kd-tree": 0.1571, "CPU": 0.1130, "ray tracing, both": 0.0658}

SHARES = {"both": 0, "points": 1, "queries": 2, "none": 3}
RESULTS = {"mask": 1, "mask-raw": 2, "pairs": 3, "append": 4, "auto": 0}


@dataclasses.dataclass(frozen=True)
class Shape:
    """A data set of the paper's shape. start: a first guess of the radius for the smallest selectivity."""
    name: str
    like: str        # the paper's set
    rows: int        # that are generated
    dims: int
    clusters: int
    intrinsic: int
    spread: float
    start: float
    paper_rows: int

    def generator(self, rows=None):
        """The data as bench_radius takes it."""
        return f"mixture:{rows or self.rows}:{self.dims}:{self.clusters}:{self.intrinsic}:{self.spread}"


SHAPES = {shape.name: shape for shape in (
    Shape("wec", "WEC", 287_999, 49, 6, 6, 0.1, 0.36, 287_999),
    Shape("msd", "MSD", 515_345, 90, 4, 7, 0.1, 0.42, 515_345),
    Shape("susy-clustered", "SuSy", 5_000_000, 18, 20, 7, 0.1, 0.155, 5_000_000),
    Shape("bigcross", "BigCross", 11_620_300, 57, 100, 4, 0.05, 0.095, 11_620_300),
    Shape("higgs-clustered", "Higgs", 11_000_000, 28, 50, 11, 0.1, 0.28, 11_000_000),
    Shape("susy", "SuSy", 5_000_000, 18, 1, 10, 0.15, 0.21, 5_000_000),
    Shape("higgs", "Higgs", 11_000_000, 28, 1, 11, 0.15, 0.27, 11_000_000),
    Shape("sift", "Sift", 1_000_000, 128, 1, 12, 0.1, 0.65, 10_000_000),
)}
GOALS = ("susy-clustered", "higgs-clustered", "bigcross")


def paper_name(shape):
    """The key of the paper's tables."""
    return shape.like.lower()
