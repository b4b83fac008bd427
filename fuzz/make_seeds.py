#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the first files of corpus/ for the readers (not for ivf: make_corpus.sh): make_seeds.py FOLDER.
The leading bytes choose format and parameters, as the head of each target says."""
import pathlib
import struct
import sys

HERE = pathlib.Path(__file__).resolve().parent
DATA = HERE.parent / "tests" / "data"
OUT = pathlib.Path(sys.argv[1])


def put(target, name, choices, data):
    folder = OUT / target
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(bytes(choices) + data)


for path in sorted(DATA.glob("read_*.npy")):
    put("npy", path.stem, [0, 0], path.read_bytes())
put("npy", "rows", [16, 4 + 1], (DATA / "read_f8_c.npy").read_bytes())
put("npy", "skip_invalid", [8, 0], (DATA / "read_f2_c.npy").read_bytes())

TEXTS = {
    "plain": b"1,2,3\n4,5,6\n", "header": b"a,b,c\n1.5,-2e-3,300\n0.1,nan,inf\n",
    "blanks": b"# note\n1 2 3\n\n 4  5 6 \r\n", "quoted": b'"a";"b"\n"1";2\n3;"4"\n',
    "missing": b"1,,3\n?,5,6\n7,8,9\n", "tabs": b"1\t-2\n3\t127\n", "mark": b"\xef\xbb\xbf1,2\n3,4",
    "digits": b"0.30000000000000004,123456789012345678901,4.9e-324,1.7976931348623157e308\n",
}
for number, (name, text) in enumerate(sorted(TEXTS.items())):
    for form in range(3):
        put("text", f"{name}_{form}", [form, 0], text)
    put("text", f"{name}_skip", [8 + number % 3, 0], text)
    put("text", f"{name}_columns", [32, 2 + number % 4], text)

F32 = struct.pack("<6f", 1, -2.5, 3, 1e30, 0, 7)
put("vecs", "fvecs", [0, 0], b"".join(struct.pack("<i", 3) + F32[12 * i:12 * i + 12] for i in range(2)))
put("vecs", "bvecs", [1, 0], b"".join(struct.pack("<i", 4) + bytes(range(4 * i, 4 * i + 4)) for i in range(3)))
put("vecs", "ivecs", [2, 0], struct.pack("<ii", 1, -5) * 3)
put("vecs", "fvecs_nan", [8, 0], struct.pack("<iff", 2, 1, float("nan")) + struct.pack("<iff", 2, 1, 2))
put("vecs", "ivecs_rows", [18, 5], struct.pack("<iii", 2, 1, 2) * 4)
for form, size in enumerate([4, 1, 1, 2, 2, 4]):
    put("bin", f"bin_{form}", [form, 0], struct.pack("<ii", 3, 2) + bytes(range(6 * size)))
    put("bin", f"bin_{form}_rows", [form + 16 + 8, 5], struct.pack("<ii", 4, 1) + bytes(range(4 * size)))
for dtype in range(12):
    put("raw", f"raw_{dtype}", [8 * (dtype % 2), dtype << 4 | 2], bytes(range(48)))
for path in sorted(DATA.glob("neighbours_*.npz")):
    put("npz", path.stem, [0], path.read_bytes())
for form, name in enumerate(["neighbours_truth.bin", "neighbours_only_ids.ibin", "neighbours.ivecs", "neighbours_u4.npy"]):
    put("neighbours", name.replace(".", "_"), [form], (DATA / name).read_bytes())
NUMBERS = ["0", "-1.5", "1e22", "9007199254740993", "1.7976931348623157e308", "4.9406564584124654e-324", "inf", "-nan",
           "infinity", "1e-400", "123456789012345678901234567890", "2.2250738585072011e-308", "0x10", ".5", "5.", "+3E+4",
           "9" * 780, "0." + "0" * 320 + "1", "179769313486231580793" + "0" * 288]
for i, text in enumerate(NUMBERS):
    put("number", f"number_{i:02}", [], text.encode())
VALUES = ["", "0", "1", "-1", "4294967296", "8G", "512MiB", "1e9", "3:7", ":5", "nan", "auto", "l2", "cosine"]
for group in range(10):
    for i, value in enumerate(VALUES):
        put("params", f"params_{group}_{i:02}", [group, (7 * i + group) % 128], value.encode())
put("params", "by_name", [0, 128], b"memory=8G")
put("params", "unknown", [3, 200], b"no-such=1")
