"""Measure how fast datasets are read: INDEX against plain threads, JSONL, and a saved folder against `datasets`.

`python -m benchmarks.reading_data [--images N] [--rows N] [--peer PYTHON]` prints ratios of one run. PYTHON is the
interpreter of an environment that has `datasets`; without it, that comparison is left out.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from PIL import Image as Pillow

from vlmhyperbench.domain.specs import DatasetSpec, Limits
from vlmhyperbench.storage import open_storage
from vlmhyperbench_eval_worker.enumerating import index
from vlmhyperbench_sdk.protocols import DatasetSource
from vlmhyperbench_table_datasets.table import TableDataset

PEER_WRITES = """
import sys
from datasets import Dataset
rows = int(sys.argv[2])
table = {"id": [f"q{n}" for n in range(rows)], "question": [f"What stands in line {n}?" for n in range(rows)],
         "answers": [[f"text {n}", f"Text {n}"] for n in range(rows)], "page": [n // 7 for n in range(rows)]}
Dataset.from_dict(table).save_to_disk(sys.argv[1])
"""
PEER_READS = """
import sys, time
from datasets import load_from_disk
dataset = load_from_disk(sys.argv[1])
started, cpu = time.perf_counter(), time.process_time()
count = sum(1 for row in dataset if row["question"])
print(count, time.perf_counter() - started, time.process_time() - cpu)
"""


PAGE = (1240, 1754)
"""A4 at 150 dots per inch."""
DISTINCT_PAGES = 40


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, default=10_000)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--saved-rows", type=int, default=100_000)
    parser.add_argument("--peer")
    options = parser.parse_args()
    print(f"load average {os.getloadavg()[0]:.1f} on {len(os.sched_getaffinity(0))} cores")
    with tempfile.TemporaryDirectory() as folder:
        measure_jsonl(Path(folder), options.rows)
        if options.peer:
            measure_saved(Path(folder), options.peer, options.saved_rows)
        measure_index(Path(folder), options.images)


def measure_index(folder: Path, count: int) -> None:
    """Index scanned pages, and do the least that anybody has to do in plain threads."""
    images = folder / "images"
    images.mkdir()
    pages = [_page(number) for number in range(DISTINCT_PAGES)]
    for number in range(count):  # what follows the end of a JPEG is not decoded, so that every file is another one
        (images / f"{number}.jpg").write_bytes(pages[number % DISTINCT_PAGES] + str(number).encode())
    lines = [json.dumps({"question": "?", "answer": "a", "image": f"images/{n}.jpg"}) for n in range(count)]
    (folder / "pages.jsonl").write_text("\n".join(lines))
    spec = DatasetSpec(name="pages", version="1.0.0", type="table", path=str(folder / "pages.jsonl"))
    threads = len(os.sched_getaffinity(0))

    def plain(path: Path) -> str:
        data = path.read_bytes()
        with Pillow.open(io.BytesIO(data)) as image:
            image.load()
        return hashlib.sha256(data).hexdigest()

    rates: dict[str, list[float]] = {"plain": [], "index": []}
    for no in range(3):  # alternating, so that other load of the machine meets both
        started = time.perf_counter()
        with ThreadPoolExecutor(threads) as pool:
            hashes = set(pool.map(plain, images.iterdir()))
        rates["plain"].append(count / (time.perf_counter() - started))
        started = time.perf_counter()
        result = index(spec, Limits(), open_storage(str(folder / f"storage-{no}")))
        rates["index"].append(count / (time.perf_counter() - started))
        if (result.samples, result.unreadable, len(hashes)) != (count, 0, count):
            raise SystemExit("the images were not all indexed")
    plain_rate, index_rate = max(rates["plain"]), max(rates["index"])
    size = f"{PAGE[0]} × {PAGE[1]}"
    print(f"INDEX of {count:,} images of {size}: {index_rate:.0f}/s, plain threads {plain_rate:.0f}/s, ratio", end=" ")
    print(f"{index_rate / plain_rate:.2f} (at least 0.8)")


def _page(seed: int) -> bytes:
    """Draw a page of blocks of noise with white margins."""
    width, height = PAGE
    page, noise = Pillow.new("L", PAGE, 255), random.Random(seed).randbytes(160 * 120)
    page.paste(Pillow.frombytes("L", (160, 120), noise).resize((width - 200, height - 200)), (100, 100))
    file = io.BytesIO()
    page.save(file, "JPEG", quality=80)
    return file.getvalue()


def measure_jsonl(folder: Path, rows: int) -> None:
    """Read rows of JSONL as samples in a process of its own, whose peak of memory counts."""
    file = folder / "rows.jsonl"
    with file.open("w") as lines:
        for n in range(rows):
            row = {"id": f"q{n}", "question": f"What stands in line {n}?", "answer": f"text {n}", "kind": "ab"[n % 2]}
            lines.write(json.dumps(row) + "\n")
    pid = os.fork()
    if pid == 0:
        started, cpu = time.perf_counter(), time.process_time()
        count = sum(1 for _ in TableDataset(DatasetSource(path=file)))
        seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2
        print(f"JSONL of {count:,} rows: {seconds:.1f} s, {cpu:.1f} s of CPU (at most 10), {peak:.2f} GB (at most 1)")
        sys.stdout.flush()
        os._exit(0 if count == rows else 1)
    if os.waitpid(pid, 0)[1] != 0:
        raise SystemExit("the rows were not all read")


def measure_saved(folder: Path, peer: str, rows: int) -> None:
    """Read a folder that `datasets` saved, with it and without it."""
    saved = folder / "saved"
    subprocess.run([peer, "-c", PEER_WRITES, str(saved), str(rows)], check=True, capture_output=True)
    ours, theirs = [], []
    for _ in range(2):
        answer = subprocess.run([peer, "-c", PEER_READS, str(saved)], check=True, capture_output=True, text=True).stdout
        theirs.append(float(answer.split()[2]))
        cpu = time.process_time()
        count = sum(1 for _ in TableDataset(DatasetSource(path=saved)))
        ours.append(time.process_time() - cpu)
        if count != rows or int(answer.split()[0]) != rows:
            raise SystemExit("the rows were not all read")
    print(f"saved folder of {rows:,} rows, CPU: {min(ours):.1f} s, datasets {min(theirs):.1f} s, ratio", end=" ")
    print(f"{min(ours) / min(theirs):.2f} (at most 1.2)")


if __name__ == "__main__":
    main()
