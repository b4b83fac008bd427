#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the rules of the source tree that a compiler does not: which folder may include which.

Every C, CUDA and C++ file in include/, src/, cli/, examples/ and fuzz/ belongs to one area (its folder). Every quoted include is resolved as
the compiler would (own folder, src/, include/), and the arrow from area to area must be in ARROWS. A folder that has no
rule, an include that resolves to nothing, and a tree without sources are errors: a check that cannot see its subject
must not pass. With --readmes, each folder's README must name each of its files.
"""
import argparse
import pathlib
import re
import sys

# area -> areas that it may include, besides itself
ARROWS = {
    "include": set(),
    "src/core": {"include"},
    "src/matrix": {"include", "src/core"},
    "src/io": {"include", "src/core", "src/matrix"},
    "src/store": {"include", "src/core", "src/io"},
    "src/generate": {"include", "src/core", "src/matrix"},
    "src/engine": {"include", "src/core", "src/matrix"},
    "src/exact": {"include", "src/core", "src/matrix", "src/engine"},
    "src/ivf": {"include", "src/core", "src/matrix", "src/engine", "src/store"},
    "src/cpu": {"include", "src/core", "src/matrix", "src/engine", "src/cpu/kernels"},
    "src/cpu/kernels": {"include", "src/core", "src/matrix", "src/engine"},
    # A vector kernel may hand work back to the plainer one that it overrides.
    "src/cpu/kernels/scalar": {"include", "src/core", "src/matrix", "src/engine", "src/cpu/kernels"},
    "src/cpu/kernels/avx2": {"include", "src/core", "src/matrix", "src/engine", "src/cpu/kernels",
                             "src/cpu/kernels/scalar"},
    "src/cpu/kernels/avx512": {"include", "src/core", "src/matrix", "src/engine", "src/cpu/kernels",
                               "src/cpu/kernels/scalar", "src/cpu/kernels/avx2"},
    "src/cpu/kernels/neon": {"include", "src/core", "src/matrix", "src/engine", "src/cpu/kernels",
                             "src/cpu/kernels/scalar"},
    "src/cuda": {"include", "src/core", "src/matrix", "src/engine", "src/cuda/kernels", "src/cuda/rt"},
    # Kernels and ray tracing get a device and a stream from the module's host code.
    "src/cuda/kernels": {"include", "src/core", "src/matrix", "src/engine", "src/cuda"},
    "src/cuda/rt": {"include", "src/core", "src/engine", "src/cuda", "src/cuda/kernels"},
    "cli": {"include"},
    "examples": {"include"},
    "fuzz": {"include", "src/io", "src/store", "src/ivf", "src/engine", "src/core"},
}
ROOTS = ("include", "src", "cli", "examples", "fuzz")
MUST_HAVE_FILES = ("include", "src/core", "src/exact", "src/cpu", "src/io", "cli")

# Headers that speak to the processor: for kernels, and for the one file that asks what the processor can do.
PROCESSOR_HEADERS = re.compile(r"(\w+intrin|cpuid|arm_neon|arm_sve)\.h$")
PROCESSOR_USERS = re.compile(r"^src/(cpu/|core/core_system\.c$)")
# Headers of CUDA and what comes with it: for its engine.
CUDA_HEADERS = re.compile(r"(cuda|cub/|thrust/|cooperative_groups|mma\.h|nvrtc|nvtx|optix|cublas|curand|vector_types)")
# Names of engine implementations (k: of their kernels): outside their folders, only the list of engines may say them.
ENGINE_NAME = re.compile(r"\bnf_(cpu|cuda|k)_\w+")
ENGINE_HOMES = {"cpu": ("src/cpu",), "cuda": ("src/cuda",), "k": ("src/cpu", "src/cuda")}
ENGINE_LIST = re.compile(r"^src/engine/engine_(list|registry)\w*\.[ch]$")

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.MULTILINE)
NAMED_FILE = re.compile(r"`([a-z0-9_]+\.(?:[ch]|cuh?|cpp|\*))`")
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
SOURCE_SUFFIXES = (".c", ".h", ".cu", ".cuh", ".cpp")
CHECKED_LENGTH = {*SOURCE_SUFFIXES, ".py", ".sh", ".cmake", ".map"}
MAX_LINES = 1000
SKIPPED = {"build", "demo", "__pycache__"}


def area_of(path):
    """The area of a file, by its folder; include/nearfield is one with include. None: no rule."""
    folder = path.parent.as_posix()
    if folder.startswith("include"):
        folder = "include"
    return folder if folder in ARROWS else None


def resolve(root, source, name):
    """The file that an include means, relative to root, or None."""
    for base in (root / source.parent, root / "src", root / "include"):
        target = base / name
        if target.is_file():
            return target.resolve().relative_to(root)
    return None


def check_include(root, source, area, bracket, name):
    """Complaints about one include line."""
    if bracket == "<" and not name.startswith("nearfield/"):
        if PROCESSOR_HEADERS.search(name) and not PROCESSOR_USERS.match(source.as_posix()):
            yield f"{source}: <{name}> belongs to src/cpu"
        if CUDA_HEADERS.match(name) and not area.startswith("src/cuda"):
            yield f"{source}: <{name}> belongs to src/cuda"
        return
    target = resolve(root, source, name)
    if target is None:
        yield f'{source}: "{name}" is found nowhere'
        return
    target_area = area_of(target)
    if target_area is None:
        yield f"{source}: {target} lies in a folder without a rule in tools/check_layers.py"
    elif target_area != area and target_area not in ARROWS[area]:
        yield f"{source}: {area} must not include {target}"


def check_source(root, source):
    """Complaints about one source file."""
    area = area_of(source)
    if area is None:
        yield f"{source}: folder without a rule in tools/check_layers.py"
        return
    text = (root / source).read_text(encoding="utf-8")
    for bracket, name in INCLUDE.findall(text):
        yield from check_include(root, source, area, bracket, name)
    if ENGINE_LIST.match(source.as_posix()):
        return
    seen = {match.group(): match.group(1) for match in ENGINE_NAME.finditer(COMMENT.sub(" ", text))}
    for name, kind in sorted(seen.items()):
        if not area.startswith(ENGINE_HOMES[kind]):
            yield f"{source}: {name} is a name of the engine in {' or '.join(ENGINE_HOMES[kind])}"


def source_files(root):
    """All source files under the checked folders, relative to root."""
    for top in ROOTS:
        for path in sorted((root / top).rglob("*")):
            if path.suffix in SOURCE_SUFFIXES:
                yield path.relative_to(root)


def check_layers(root):
    """Complaints about include arrows, and the number of files seen."""
    files = list(source_files(root))
    complaints = [line for source in files for line in check_source(root, source)]
    for folder in MUST_HAVE_FILES:
        if not any(source.as_posix().startswith(folder + "/") for source in files):
            complaints.append(f"{folder}: no source files found; is {root} the root of the source tree?")
    return complaints, len(files)


def check_text(root):
    """Complaints about length and licence line of every source, script and build file."""
    complaints = []
    for path in sorted(root.rglob("*")):
        relative = path.relative_to(root)
        hidden = any(part.startswith(".") for part in relative.parts)
        if hidden or SKIPPED & set(relative.parts) or not path.is_file():
            continue
        if path.suffix not in CHECKED_LENGTH and path.name != "CMakeLists.txt":
            continue
        lines = path.read_text(encoding="utf-8").splitlines()
        if len(lines) > MAX_LINES:
            complaints.append(f"{relative}: {len(lines)} lines, at most {MAX_LINES}")
        if not any("SPDX-License-Identifier: Apache-2.0" in line for line in lines[:3]):
            complaints.append(f"{relative}: no SPDX line in the first three lines")
    return complaints


def check_readme(folder):
    """Complaints about one folder's README: a file it does not name (x.c and x.h may be named together as x.*), a name
    without a file."""
    readme = folder / "README.md"
    if not readme.is_file():
        yield "no README.md"
        return
    named = set(NAMED_FILE.findall(readme.read_text(encoding="utf-8")))
    files = {path.name for path in folder.iterdir() if path.suffix in SOURCE_SUFFIXES}
    for name in sorted(files):
        if name not in named and f"{pathlib.PurePath(name).stem}.*" not in named:
            yield f"README.md does not name {name}"
    for name in sorted(named - files):
        if not any(folder.glob(name)):
            yield f"README.md names {name}, which is not there"


def check_readmes(root):
    """Complaints about the READMEs of all folders with source files."""
    folders = sorted({source.parent for source in source_files(root)})
    return [f"{folder}: {complaint}" for folder in folders for complaint in check_readme(root / folder)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("root", type=pathlib.Path, help="root of the source tree")
    parser.add_argument("--readmes", action="store_true", help="also hold the folders' READMEs against the files")
    parser.add_argument("--quiet", action="store_true", help="say nothing when all is well")
    arguments = parser.parse_args()
    root = arguments.root.resolve()
    complaints, count = check_layers(root)
    if count:
        complaints += check_text(root)
    if arguments.readmes:
        complaints += check_readmes(root)
    for complaint in complaints:
        print(complaint, file=sys.stderr)
    if complaints:
        sys.exit(1)
    if not arguments.quiet:
        print(f"{count} source files: include arrows, lengths and licence lines are in order")


if __name__ == "__main__":
    main()
