# SPDX-License-Identifier: Apache-2.0
"""Libraries for approximate neighbours, inside this process: how each is built, searched and asked for its size.

An index offers build(threads), timed outside, which returns seconds to be added to that time, bytes(), efforts (what
recall is bought with: probes or ef), prepare(effort, threads), and search(queries, k), which returns ids and is what is
timed. Rows and queries are there in binary32 already; nothing is converted inside of the times."""
import os
import pathlib
import time

import faiss
import hnswlib
import numpy as np
import rabitqlib
import usearch.index

GRAPH_DEGREE = 16         # M of HNSW
GRAPH_CONSTRUCTION = 200  # its efConstruction
GRAPH_EFFORTS = (10, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024)
PROBES = (1, 2, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024)
PRODUCTS = {"l2": faiss.METRIC_L2, "ip": faiss.METRIC_INNER_PRODUCT}


def probes_up_to(lists):
    return tuple(p for p in PROBES if p <= lists)


class Index:
    """What all of them share. rank is l2, or ip: the same order where rows have length 1. shared: a dict for what
    several configurations can use."""
    family = ""
    efforts = GRAPH_EFFORTS

    def __init__(self, base, rank, scratch, shared, **settings):
        self.base, self.rank, self.scratch, self.settings = base, rank, pathlib.Path(scratch), settings
        self.shared, self.index = shared, None

    @property
    def name(self):
        return ", ".join([f"{key} {value}" for key, value in self.settings.items()] + [self.rank])

    def build_smallest(self, k):
        """An index of the few rows given, on which a call takes hardly longer than getting there."""
        self.build(1)
        self.prepare(k, 1)

    def _bytes_saved(self, save):
        path = self.scratch / "index.tmp"
        save(str(path))
        size = path.stat().st_size
        os.unlink(path)
        return size


class FaissIndex(Index):
    """An index of FAISS's factory. Subclasses give the text."""

    def text(self):
        raise NotImplementedError

    def build(self, threads):
        faiss.omp_set_num_threads(threads)
        self.index = faiss.index_factory(self.base.shape[1], self.text(), PRODUCTS[self.rank])
        self.index.train(self.base)
        self.index.add(self.base)
        self.lists = faiss.extract_index_ivf(self.index)
        return 0.0

    def build_smallest(self, k):
        faiss.omp_set_num_threads(1)
        self.index = faiss.IndexFlat(self.base.shape[1], PRODUCTS[self.rank])
        self.index.add(self.base)

    def bytes(self):
        return len(faiss.serialize_index(self.index))

    @property
    def efforts(self):
        return probes_up_to(self.settings["lists"])

    def prepare(self, effort, threads):
        faiss.omp_set_num_threads(threads)
        self.lists.nprobe = effort

    def search(self, queries, k):
        return self.index.search(queries, k)[1]


class FaissRabitqFastScan(FaissIndex):
    """RaBitQ codes in blocks of 32, behind a random rotation, which FAISS leaves to its user."""
    family = "FAISS IVF-RaBitQ fast scan"

    def text(self):
        return f"RR{self.base.shape[1]},IVF{self.settings['lists']},RaBitQfs{self.settings['bits']}"


class FaissRabitq(FaissIndex):
    """The same, row after row."""
    family = "FAISS IVF-RaBitQ"

    def text(self):
        return f"RR{self.base.shape[1]},IVF{self.settings['lists']},RaBitQ{self.settings['bits']}"


class FaissPq(FaissIndex):
    """Product quantisation, 4 bits for every 2 dims: the codes alone."""
    family = "FAISS IVF-PQ fast scan"

    def text(self):
        return f"IVF{self.settings['lists']},PQ{self.base.shape[1] // 2}x4fs"


class FaissPqRefined(FaissPq):
    """The same, whose best answers are ranked again by the rows in binary32, which the index then holds."""
    family = "FAISS IVF-PQ fast scan, refined"

    def text(self):
        return super().text() + ",RFlat"

    def prepare(self, effort, threads):
        super().prepare(effort, threads)
        self.index.k_factor = self.settings["factor"]


class RabitqLibrary(Index):
    """IVF of the RaBitQ-Library, with lists from its own k-means, as its documentation shows."""
    family = "RaBitQ-Library IVF"

    @property
    def efforts(self):
        return probes_up_to(self.settings["lists"])

    def _means(self, threads):
        """Centres and the list of each row, with the seconds that they took: computed once for all bits."""
        key = (self.family, self.settings["lists"], threads)
        if key in self.shared:
            return self.shared[key], self.shared[key][2]
        start = time.perf_counter()
        means = rabitqlib.RaBitQKMeans(self.base.shape[1], self.settings["lists"], num_threads=threads,
                                       final_assignment=rabitqlib.FinalAssignmentMode.Exact)
        means.train(self.base)
        self.shared[key] = (means.centroids, means.assignments, time.perf_counter() - start)
        return self.shared[key], 0.0

    def build(self, threads):
        rows = self.base
        (centroids, assignments, _), seconds_before = self._means(threads)
        self.index = rabitqlib.IvfIndex(rows.shape[1], len(rows), len(centroids), self.settings["bits"], self.rank)
        self.index.build(rows, centroids, assignments, num_threads=threads)
        return seconds_before

    def bytes(self):
        return self._bytes_saved(self.index.save)

    def prepare(self, effort, threads):
        self.probes, self.threads = effort, threads

    def search(self, queries, k):
        return self.index.search(queries, k, self.probes, num_threads=self.threads)[0]


class Hnswlib(Index):
    """Graph over the rows, which it holds."""
    family = "hnswlib"

    def build(self, threads):
        self.index = hnswlib.Index(space=self.rank, dim=self.base.shape[1])
        self.index.init_index(max_elements=len(self.base), M=GRAPH_DEGREE, ef_construction=GRAPH_CONSTRUCTION)
        self.index.add_items(self.base, num_threads=threads)
        return 0.0

    def bytes(self):
        return self.index.index_file_size()

    def prepare(self, effort, threads):
        self.index.set_ef(effort)
        self.threads = threads

    def search(self, queries, k):
        return self.index.knn_query(queries, k, num_threads=self.threads)[0]


class Usearch(Index):
    """Graph over the rows, which it holds."""
    family = "usearch"

    def build(self, threads):
        self.index = usearch.index.Index(
            ndim=self.base.shape[1], metric={"l2": "l2sq", "ip": "ip"}[self.rank], dtype="f32",
            connectivity=GRAPH_DEGREE, expansion_add=GRAPH_CONSTRUCTION)
        self.index.add(np.arange(len(self.base)), self.base, threads=threads)
        return 0.0

    def bytes(self):
        return self.index.serialized_length

    def prepare(self, effort, threads):
        self.index.expansion_search = effort
        self.threads = threads

    def search(self, queries, k):
        return self.index.search(queries, k, threads=self.threads).keys
