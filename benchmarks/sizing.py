"""Measure what a stack needs by samples and workers: memory of each part, bytes in Postgres, Redis and the storage.

Usage: python -m benchmarks.sizing [--runs 10]

Runs of 1,000 samples at zero model time are stored; what is left after them is counted.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import psutil
import psycopg
import redis
from rich.console import Console
from rich.table import Table
from sqlalchemy.engine import make_url

from benchmarks.parts import processes_of_parts
from benchmarks.run import _entry, all_ended, ended, stack
from vlmhyperbench.local.supervisor.home import Home
from vlmhyperbench.settings import Settings

SAMPLES = 1000


def main() -> None:
    """Print the memory of each part, idle and after the runs, and what each sample has left behind."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10)
    count = parser.parse_args().runs
    with stack() as (home, client):
        ended(client, client.runs.create(_entry(20)))
        before, idle = _bytes(home), _memory(home)
        started = time.monotonic()
        all_ended(client, [client.runs.create(_entry(SAMPLES)).id for _ in range(count)])
        taken_s = time.monotonic() - started
        after, used = _bytes(home), _memory(home)
    table = Table(
        "what", "before", "after", "per 1,000 samples", title=f"{count} runs of {SAMPLES:,} in {taken_s:.0f} s"
    )
    for name in before:
        each = (after[name] - before[name]) / count / 1e6
        table.add_row(name, f"{before[name] / 1e6:.1f} MB", f"{after[name] / 1e6:.1f} MB", f"{each:.2f} MB")
    for name in sorted(used):
        table.add_row(f"memory of {name}", f"{idle[name] / 1e6:.0f} MB", f"{used[name] / 1e6:.0f} MB", "")
    Console(width=120).print(table)


def _bytes(home: Home) -> dict[str, int]:
    settings = Settings.load()
    url = make_url(settings.database_url.get_secret_value()).set(drivername="postgresql")
    with psycopg.connect(url.render_as_string(hide_password=False)) as connection:
        row = connection.execute("SELECT pg_database_size(current_database())").fetchone()
    client = redis.Redis.from_url(settings.redis_url.get_secret_value())
    return {
        "database": int(row[0]) if row else 0,
        "Redis": int(client.info("memory")["used_memory"]),
        "storage": sum(path.stat().st_size for path in Path(home.storage).rglob("*") if path.is_file()),
    }


def _memory(home: Home) -> dict[str, int]:
    """Return the proportional memory of each part."""
    return {name: sum(map(_pss, processes)) for name, processes in processes_of_parts(home).items()}


def _pss(process: psutil.Process) -> int:
    try:
        return int(process.memory_full_info().pss)
    except psutil.NoSuchProcess:  # it has ended since it was listed
        return 0


if __name__ == "__main__":
    main()
