# SPDX-License-Identifier: Apache-2.0
"""A few functions of libnearfield.so through ctypes: contexts, and building and searching an index. Matrices are PyTorch
tensors; results are written where the caller's tensors lie. The structures are those of include/nearfield/."""
import ctypes
import math

import torch

ENGINES = {"auto": 0, "cpu": 1, "cuda": 2}
METRICS = {"l2": 0, "ip": 1, "cosine": 2}
PRECISIONS = {"auto": 0, "lut16": 1, "lut32": 2, "bitwise4": 3, "bitwise8": 4, "tile": 5}
DTYPES = {torch.uint8: 1, torch.int8: 2, torch.float16: 9, torch.float32: 10, torch.float64: 11}
BUILD_STEPS, SEARCH_STEPS = 6, 5

_size, _u32, _u64, _double, _pointer = ctypes.c_size_t, ctypes.c_uint32, ctypes.c_uint64, ctypes.c_double, ctypes.c_void_p


def _structure(name, fields):
    return type(name, (ctypes.Structure,), {"_fields_": fields})


_Error = _structure("_Error", [("status", ctypes.c_int), ("native", ctypes.c_int32), ("text", ctypes.c_char * 512)])
_ContextParams = _structure("_ContextParams", [
    ("struct_size", _size), ("engine", _u32), ("isa", _u32), ("device", ctypes.c_int32), ("threads", _u32), ("memory", _u64),
    ("gpu_memory", _u64), ("progress", _pointer), ("progress_user", _pointer), ("alloc", _pointer), ("release", _pointer),
    ("user", _pointer)])
_ContextInfo = _structure("_ContextInfo", [
    ("engine", ctypes.c_char_p), ("isa", ctypes.c_char_p), ("threads", _u32), ("memory_limit", _u64), ("memory_used", _u64),
    ("memory_peak", _u64), ("device", ctypes.c_char_p), ("why", ctypes.c_char_p)])
_Matrix = _structure("_Matrix", [
    ("data", _pointer), ("rows", _u64), ("dims", _u32), ("dtype", _u32), ("stride_bytes", _u64), ("place", _u32)])
_BuildParams = _structure("_BuildParams", [
    ("struct_size", _size), ("lists", _u32), ("bits", _u32), ("metric", _u32), ("rotation", _u32), ("seed", _u64),
    ("iterations", _u32), ("train_rows", _u32), ("keep_vectors", _u32), ("recall_rows", _u32), ("ids", _pointer)])
_BuildStats = _structure("_BuildStats", [
    ("struct_size", _size), ("seconds", _double), ("step_seconds", _double * BUILD_STEPS), ("largest_list", _u64),
    ("empty_lists", _u64), ("code_error", _double)])
_Info = _structure("_Info", [
    ("struct_size", _size), ("rows", _u64), ("dims", _u32), ("padded_dims", _u32), ("lists", _u32), ("bits", _u32),
    ("metric", _u32), ("rotation", _u32), ("keep_vectors", _u32), ("user_ids", _u32), ("vectors_dtype", _u32),
    ("recall_points", _u32), ("seed", _u64), ("bytes", _u64), ("file_id", _u64), ("largest_list", _u64),
    ("empty_lists", _u64), ("format_major", _u32), ("format_minor", _u32)])
_SearchParams = _structure("_SearchParams", [
    ("struct_size", _size), ("k", _u32), ("probes", _u32), ("recall", _double), ("epsilon0", _double), ("rerank", _u32),
    ("precision", _u32), ("filter", _pointer), ("results_place", _u32), ("reserved", _u32), ("stream", _pointer)])
_SearchStats = _structure("_SearchStats", [
    ("struct_size", _size), ("seconds", _double), ("step_seconds", _double * SEARCH_STEPS), ("probes", _u32),
    ("reserved", _u32), ("scanned", _u64), ("refined", _u64)])

_SIGNATURES = {
    "nf_context_params_init": (None, ["p"]),
    "nf_context_create": (ctypes.c_int, ["p", "p", "p"]),
    "nf_context_destroy": (None, ["p"]),
    "nf_context_error": (ctypes.POINTER(_Error), ["p"]),
    "nf_context_describe": (None, ["p", "p"]),
    "nf_ivf_params_init": (None, ["p"]),
    "nf_ivf_search_params_init": (None, ["p"]),
    "nf_ivf_build": (ctypes.c_int, ["p"] * 5),
    "nf_ivf_describe": (None, ["p", "p"]),
    "nf_ivf_search": (ctypes.c_int, ["p"] * 8),
    "nf_ivf_release": (None, ["p"]),
    "nf_ivf_build_step_name": (ctypes.c_char_p, ["u"]),
    "nf_ivf_search_step_name": (ctypes.c_char_p, ["u"]),
}


class Failed(Exception):
    """What the library says."""


def _sized(structure):
    """A structure of which the caller sets the size."""
    return structure(struct_size=ctypes.sizeof(structure))


def _initialised(structure, function):
    made = structure()
    function(ctypes.byref(made))
    if made.struct_size != ctypes.sizeof(structure):
        raise Failed(f"{structure.__name__} has {ctypes.sizeof(structure)} bytes here, {made.struct_size} in the library")
    return made


def _matrix(rows):
    """A view on a tensor of rows."""
    if rows.dim() != 2 or not rows.is_contiguous():
        raise Failed("a matrix has to be packed, of rows and columns")
    return _Matrix(rows.data_ptr(), rows.shape[0], rows.shape[1], DTYPES[rows.dtype], 0, int(rows.is_cuda))


class Library:
    """libnearfield.so."""

    def __init__(self, path):
        self.c = ctypes.CDLL(str(path))
        for name, (result, arguments) in _SIGNATURES.items():
            function = getattr(self.c, name)
            function.restype = result
            function.argtypes = [_pointer if kind == "p" else _u32 for kind in arguments]

    def step_names(self, what):
        """Names of the steps of a "build" or a "search"."""
        count = BUILD_STEPS if what == "build" else SEARCH_STEPS
        name = getattr(self.c, f"nf_ivf_{what}_step_name")
        return [(name(step) or b"").decode() for step in range(count)]

    def context(self, engine="cuda", gpu_memory=0):
        return Context(self, engine, gpu_memory)


class Context:
    """A context; closed by with."""

    def __init__(self, library, engine, gpu_memory):
        self.library, self.c, self.handle = library, library.c, _pointer()
        params, error = _initialised(_ContextParams, self.c.nf_context_params_init), _Error()
        params.engine, params.gpu_memory = ENGINES[engine], int(gpu_memory)
        if self.c.nf_context_create(ctypes.byref(params), ctypes.byref(self.handle), ctypes.byref(error)) < 0:
            raise Failed(error.text.decode())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.c.nf_context_destroy(self.handle)
        self.handle = _pointer()

    def check(self, status):
        if status < 0:
            raise Failed(self.c.nf_context_error(self.handle).contents.text.decode())

    def describe(self):
        """What did the last work."""
        info = _ContextInfo()
        self.c.nf_context_describe(self.handle, ctypes.byref(info))
        texts = {name: (getattr(info, name) or b"").decode() for name in ("engine", "isa", "device", "why")}
        return texts | {"threads": info.threads, "memory_peak": info.memory_peak}

    def build(self, rows, **values):
        """Builds an index; values: of nf_ivf_params, the metric by name. Returns (index, what the build says)."""
        params, stats = _initialised(_BuildParams, self.c.nf_ivf_params_init), _sized(_BuildStats)
        for name, value in values.items():
            setattr(params, name, METRICS[value] if name == "metric" else value)
        index, matrix = _pointer(), _matrix(rows)
        self.check(self.c.nf_ivf_build(self.handle, ctypes.byref(matrix), ctypes.byref(params), ctypes.byref(index),
                                       ctypes.byref(stats)))
        return Index(self.library, index), {
            "seconds": stats.seconds, "steps": dict(zip(self.library.step_names("build"), stats.step_seconds)),
            "largest_list": stats.largest_list, "empty_lists": stats.empty_lists, "code_error": stats.code_error}

    def search(self, index, queries, ids, distances, **values):
        """A search, ready to be called any number of times."""
        return Search(self, index, queries, ids, distances, values)


class Index:
    """An index; closed by with."""

    def __init__(self, library, handle):
        self.c, self.handle = library.c, handle

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.c.nf_ivf_release(self.handle)
        self.handle = _pointer()

    def describe(self):
        info = _sized(_Info)
        self.c.nf_ivf_describe(self.handle, ctypes.byref(info))
        return {name: getattr(info, name) for name in
                ("rows", "dims", "padded_dims", "lists", "bits", "bytes", "largest_list", "empty_lists", "recall_points")}


class Search:
    """Everything that a call of nf_ivf_search takes, made once, so that a call costs little more than the search."""

    def __init__(self, context, index, queries, ids, distances, values):
        if ids.shape != distances.shape or ids.shape[0] != queries.shape[0] or ids.dtype != torch.int64 or \
                distances.dtype != torch.float32 or not (ids.is_contiguous() and distances.is_contiguous()):
            raise Failed("results have to be queries x k, 64-bit integers and binary32")
        self.context, self.held = context, (index, queries, ids, distances)
        self.matrix = _matrix(queries)
        self.params = _initialised(_SearchParams, context.c.nf_ivf_search_params_init)
        self.params.k, self.params.results_place = ids.shape[1], int(ids.is_cuda)
        for name, value in values.items():
            setattr(self.params, name, PRECISIONS[value] if name == "precision" else value)
        self.stats = _sized(_SearchStats)
        self.arguments = (context.handle, index.handle, ctypes.byref(self.matrix), ctypes.byref(self.params),
                          ids.data_ptr(), distances.data_ptr(), None, ctypes.byref(self.stats))
        self.function = context.c.nf_ivf_search

    def __call__(self):
        self.context.check(self.function(*self.arguments))

    def move(self, first):
        """Lets the next call read the queries from row `first` on; as many as before."""
        queries = self.held[1]
        self.matrix.data = queries.data_ptr() + first * queries.stride(0) * queries.element_size()

    def said(self):
        """What the last call says."""
        steps = [seconds if math.isfinite(seconds) else None for seconds in self.stats.step_seconds]
        return {"inner_seconds": self.stats.seconds, "probes": self.stats.probes, "scanned": self.stats.scanned,
                "refined": self.stats.refined, "steps": dict(zip(self.context.library.step_names("search"), steps))}
