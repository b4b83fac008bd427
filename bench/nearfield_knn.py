# SPDX-License-Identifier: Apache-2.0
"""Exact k nearest neighbours of libnearfield.so through ctypes, on NumPy arrays: nf_radius_index_create, nf_radius_knn, nf_knn.
The structures are those of include/nearfield/."""
import ctypes
import time

import numpy as np

DTYPES = {np.dtype(np.uint8): 1, np.dtype(np.int8): 2, np.dtype(np.float16): 9, np.dtype(np.float32): 10,
          np.dtype(np.float64): 11}
_size, _u32, _u64, _double, _pointer = ctypes.c_size_t, ctypes.c_uint32, ctypes.c_uint64, ctypes.c_double, ctypes.c_void_p


def _structure(name, fields):
    return type(name, (ctypes.Structure,), {"_fields_": fields})


_Error = _structure("_Error", [("status", ctypes.c_int), ("native", ctypes.c_int32), ("text", ctypes.c_char * 512)])
_ContextParams = _structure("_ContextParams", [
    ("struct_size", _size), ("engine", _u32), ("isa", _u32), ("device", ctypes.c_int32), ("threads", _u32), ("memory", _u64),
    ("gpu_memory", _u64), ("progress", _pointer), ("progress_user", _pointer), ("alloc", _pointer), ("release", _pointer),
    ("user", _pointer)])
_Matrix = _structure("_Matrix", [
    ("data", _pointer), ("rows", _u64), ("dims", _u32), ("dtype", _u32), ("stride_bytes", _u64), ("place", _u32)])
_Params = _structure("_Params", [("struct_size", _size), ("k", _u32), ("metric", _u32)])
_Stats = _structure("_Stats", [("struct_size", _size), ("seconds", _double), ("compared", _u64), ("rechecked", _u64)])


class Failed(Exception):
    """What the library says."""


class Library:
    """libnearfield.so with one context on the CPU engine."""

    def __init__(self, path, threads=0):
        self.c = ctypes.CDLL(str(path))
        for name in ("nf_context_create", "nf_radius_index_create", "nf_radius_knn", "nf_knn"):
            getattr(self.c, name).restype = ctypes.c_int
        self.c.nf_context_error.restype = ctypes.POINTER(_Error)
        self.handle, params, error = _pointer(), _ContextParams(), _Error()
        self.c.nf_context_params_init(ctypes.byref(params))
        params.engine, params.threads = 1, threads
        if self.c.nf_context_create(ctypes.byref(params), ctypes.byref(self.handle), ctypes.byref(error)) < 0:
            raise Failed(error.text.decode())

    def _check(self, status):
        if status < 0:
            raise Failed(self.c.nf_context_error(self.handle).contents.text.decode())

    @staticmethod
    def _matrix(rows):
        return _Matrix(rows.ctypes.data, rows.shape[0], rows.shape[1], DTYPES[rows.dtype], 0, 0)

    def index(self, rows):
        """Builds an index: (handle, seconds)."""
        index, start = _pointer(), time.perf_counter()
        self._check(self.c.nf_radius_index_create(self.handle, ctypes.byref(self._matrix(rows)), None, ctypes.byref(index)))
        return index, time.perf_counter() - start

    def release(self, index):
        self.c.nf_radius_index_release(index)

    def _search(self, function, what, queries, rows, k):
        ids, distances = np.empty((rows, k), np.int64), np.empty((rows, k), np.float64)
        params, stats = _Params(), _Stats(struct_size=ctypes.sizeof(_Stats))
        self.c.nf_knn_params_init(ctypes.byref(params))
        params.k = k
        start = time.perf_counter()
        self._check(function(self.handle, what, queries, ctypes.byref(params), _pointer(ids.ctypes.data),
                             _pointer(distances.ctypes.data), None, ctypes.byref(stats)))
        seconds = time.perf_counter() - start
        return ids, distances, seconds, {"compared": stats.compared, "rechecked": stats.rechecked}

    def search(self, index, queries, rows, k):
        """queries None: the data themselves, of so many rows. (ids, distances, seconds, stats)."""
        matrix = None if queries is None else ctypes.byref(self._matrix(queries))
        return self._search(self.c.nf_radius_knn, index, matrix, rows, k)

    def knn(self, data, queries, k):
        """nf_knn: no index."""
        return self._search(self.c.nf_knn, ctypes.byref(self._matrix(data)), ctypes.byref(self._matrix(queries)),
                            len(queries), k)
