#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes cmake/exports.map from the public headers: every function marked NF_API, by name.

The list is kept in the tree so that a change of the library's surface shows in a diff. `--check` compares instead of
writing. tools/check_symbols.py holds the built library against the same headers.
"""
import argparse
import pathlib
import re
import sys

FUNCTION = re.compile(r"^NF_API\b[^;{]*?\b(nf_\w+)\s*\(", re.MULTILINE)


def public_functions(root):
    """Names of all NF_API functions in include/nearfield, sorted."""
    headers = sorted((root / "include" / "nearfield").glob("*.h"))
    if not headers:
        sys.exit(f"make_exports: no headers in {root}/include/nearfield")
    names = []
    for header in headers:
        names += FUNCTION.findall(header.read_text(encoding="utf-8"))
    duplicates = {name for name in names if names.count(name) > 1}
    if duplicates or not names:
        sys.exit(f"make_exports: declared twice, or nothing declared: {sorted(duplicates)}")
    return sorted(names)


def export_map(root):
    """The text of the version script."""
    soversion = (root / "cmake" / "SOVERSION").read_text(encoding="utf-8").strip()
    lines = ["# SPDX-License-Identifier: Apache-2.0",
             "# Every symbol that libnearfield.so exports. Written by tools/make_exports.py from the public headers.",
             f"NEARFIELD_{soversion} {{", "    global:"]
    lines += [f"        {name};" for name in public_functions(root)]
    lines += ["    local:", "        *;", "};"]
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description="write cmake/exports.map from the public headers")
    parser.add_argument("root", type=pathlib.Path, help="root of the source tree")
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    arguments = parser.parse_args()
    path = arguments.root / "cmake" / "exports.map"
    text = export_map(arguments.root)
    if not arguments.check:
        path.write_text(text, encoding="utf-8")
    elif path.read_text(encoding="utf-8") != text:
        sys.exit("cmake/exports.map differs from the public headers: run tools/make_exports.py <root>")


if __name__ == "__main__":
    main()
