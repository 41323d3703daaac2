"""Measure `vlmhyperbench registry validate` over many files: copies of the shipped entries under other names.

`python -m benchmarks.registry_files [--files N]` prints the seconds of the whole command, of a processor too, since
others may use this machine, and of reading them alone.
"""

from __future__ import annotations

import argparse
import itertools
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from vlmhyperbench.registry.loading import load_catalogue
from vlmhyperbench.registry.schemas import KINDS

ROOT = Path(__file__).parents[1]
CLI = str(Path(sys.executable).with_name("vlmhyperbench"))
ROUNDS: Final = 5


def main() -> None:
    """Print the median of each, with the load of the machine."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=1000)
    count = parser.parse_args().files
    with tempfile.TemporaryDirectory(prefix="vlmhb-") as folder:
        write_entries(registries := Path(folder) / "registries", count)
        whole_s, used_s = command_s(registries)
        reading_s = catalogue_s(registries)
    cores = len(os.sched_getaffinity(0))
    print(f"registry validate of {count:,} files, median of {ROUNDS}: {whole_s:.2f} s, {used_s:.2f} s of a processor")
    print(f"reading and checking alone: {reading_s:.2f} s of a processor")
    print(f"load average {os.getloadavg()[0]:.1f} on {cores} cores")


def write_entries(registries: Path, count: int) -> None:
    """Write the shipped entries, and copies of them in turn until there are so many files."""
    shutil.copytree(ROOT / "registries", registries)
    shipped = [file for kind in KINDS for file in sorted((registries / kind).glob("*.yaml"))]
    for number, file in zip(range(len(shipped), count), itertools.cycle(shipped), strict=False):
        shutil.copy(file, file.with_name(f"{file.stem}-{number}.yaml"))


def command_s(registries: Path) -> tuple[float, float]:
    """Return the median seconds of the command with its start: on the clock, and of a processor."""
    rounds = [_timed([CLI, "registry", "validate", str(registries)]) for _ in range(ROUNDS)]
    return statistics.median(clock for clock, _ in rounds), statistics.median(used for _, used in rounds)


def _timed(command: list[str]) -> tuple[float, float]:
    started, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return time.perf_counter() - started, used


def catalogue_s(registries: Path) -> float:
    """Return the median seconds of a processor in which this process reads and checks them."""
    seconds = []
    for _ in range(ROUNDS):
        started = time.process_time()
        load_catalogue(registries)
        seconds.append(time.process_time() - started)
    return statistics.median(seconds)


if __name__ == "__main__":
    main()
