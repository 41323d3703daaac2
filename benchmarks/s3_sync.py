"""Measure how fast a dataset is synced from S3, against `rclone copy` from the same server in the same run.

Usage: python -m benchmarks.s3_sync [--rounds N]    About a minute with three rounds, the default, on free cores. Both
read the same objects, in turns, into folders that are empty.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.parts import machine_load
from tests.support.bucket import KEY, RCLONE, SECRET
from vlmhyperbench.data.buckets import Bucket
from vlmhyperbench.data.model_cache import ModelCache
from vlmhyperbench.data.repositories import Arrival

MIB = 1024**2
SHAPES = {"4,000 images of 64 KiB": (4000, 64 * 1024), "8 files of 64 MiB": (8, 64 * MIB)}
"""Name → objects and bytes of each: a dataset of page images, and one of archives or weights."""
AIM = 0.8


def main() -> None:
    """Measure each shape and print the ratio to rclone with its aim."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    table = Table("objects", "rclone copy, MiB/s", "sync, MiB/s", "ratio", "aim", title="Sync of a dataset from S3")
    for name, (count, size_bytes) in SHAPES.items():
        with tempfile.TemporaryDirectory(prefix="vlmhb-s3-") as folder, _served(Path(folder) / "s3") as url:
            _fill(Path(folder) / "s3" / "bucket" / "data", count, size_bytes)
            theirs, ours = [], []
            for number in range(rounds):
                theirs.append(_timed(partial(_copy, url), Path(folder) / "theirs"))
                ours.append(_timed(partial(_sync, url), Path(folder) / "ours"))
                print(f"{name}, round {number + 1}: rclone {theirs[-1]:.2f} s, sync {ours[-1]:.2f} s", flush=True)
        total = count * size_bytes / MIB
        rates = [total / statistics.median(seconds) for seconds in (theirs, ours)]
        ratio = statistics.median(first / second for first, second in zip(theirs, ours, strict=True))
        table.add_row(name, f"{rates[0]:.0f}", f"{rates[1]:.0f}", f"{ratio:.2f}", f">= {AIM}")
    Console().print(table)
    print(machine_load())


def _timed(work: Callable[[Path], None], folder: Path) -> float:
    started = time.perf_counter()
    work(folder)
    seconds = time.perf_counter() - started
    shutil.rmtree(folder)
    return seconds


def _sync(url: str, folder: Path) -> None:
    """Fetch as the evaluation worker does: listed, downloaded, hashed, recorded."""
    source = Bucket({"endpoint_url": url, "region_name": "us-east-1", **_KEYS}, is_deep=True)
    repository = source.look_up("s3://bucket/data", "")
    cache = ModelCache(folder, max_bytes=1024**4)
    fetched = cache.fetch(source, repository, [file.name for file in repository.files], Arrival())
    assert len(fetched.sha256) == len(repository.files)


def _copy(url: str, folder: Path) -> None:
    remote = f":s3,provider=Rclone,endpoint='{url}',access_key_id={KEY},secret_access_key={SECRET}:bucket/data"
    subprocess.run([RCLONE, "--config", "", "copy", remote, folder], check=True, stdin=subprocess.DEVNULL)


_KEYS = {"aws_access_key_id": KEY, "aws_secret_access_key": SECRET}


def _fill(folder: Path, count: int, size_bytes: int) -> None:
    for number in range(count):
        path = folder / f"part-{number // 500:03}" / f"{number:05}.bin"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(os.urandom(size_bytes))


@contextmanager
def _served(root: Path) -> Iterator[str]:
    root.mkdir()
    (root / "bucket").mkdir()
    serve = [str(RCLONE), "serve", "s3", str(root), "--config", ""]
    command = [*serve, "--addr", "127.0.0.1:0", "--auth-key", f"{KEY},{SECRET}"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        line = next((line for line in server.stderr if "http://" in line), "")
        try:
            yield "http://" + line.partition("http://")[2].split("/")[0].strip().rstrip("]")
        finally:
            server.terminate()


if __name__ == "__main__":
    main()
