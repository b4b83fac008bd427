# SPDX-License-Identifier: Apache-2.0
"""Runs a command and writes its exit code, wall time and peak memory as JSON: bench_launch.py FILE COMMAND...

A process of its own, because Linux counts the memory of the process that starts a command as the command's own; that of
a benchmark holds gigabytes, that of this script about 10 MiB."""
import json
import os
import sys
import time


def main():
    file, command = sys.argv[1], sys.argv[2:]
    start = time.perf_counter()
    process = os.posix_spawn(command[0], command, os.environ)
    _, status, usage = os.wait4(process, 0)
    seconds = time.perf_counter() - start
    with open(file, "w", encoding="utf-8") as out:
        json.dump({"exit": os.waitstatus_to_exitcode(status), "seconds": seconds, "peak": usage.ru_maxrss << 10}, out)


if __name__ == "__main__":
    main()
