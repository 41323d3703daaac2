"""Measure the time from the POST of a registered run to its first token, with the engine loaded, for each engine.

Usage: python -m benchmarks.first_token [--registries FOLDER] [MODEL:BACKEND …]    The first run of each loads it.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import time
from pathlib import Path

from sqlalchemy import text

from benchmarks.run import ROOT, ended, stack
from vlmhyperbench.client import Client
from vlmhyperbench.db.engine import Database
from vlmhyperbench.registry.schemas import RunEntry
from vlmhyperbench.settings import Settings

ROUNDS = 5
TARGETS = ("simulated-instant:simulated", "tiny-doc-vlm:llamacpp")
_FIRST_TOKEN = """
SELECT min(f.sent_ns + f.ttft_service_ns - c.anchor_monotonic_ns + c.anchor_wall_ns) FROM fact f
JOIN claim c ON c.id = f.claim_id WHERE f.run_id = CAST(:run AS uuid)
"""


def first_token_s(client: Client, model: str, backend: str) -> float:
    """Return the time from the POST of a run to its first token, by the wall clock in the claim's anchor."""
    given = {"target": {"model": model, "backend": backend}, "task": "synthetic-questions", "limit": 8}
    posted = time.time()
    run = ended(client, client.runs.create(RunEntry.model_validate(given)))
    return asyncio.run(_first_token_at(str(run.id))) - posted


async def _first_token_at(run_id: str) -> float:
    database = Database(Settings.load().database_url.get_secret_value())
    try:
        async with database.transaction() as session:
            found = await session.execute(text(_FIRST_TOKEN), {"run": run_id})
            return float(found.scalar_one()) / 1e9
    finally:
        await database.close()


def main() -> None:
    """Measure and print the median of each target with its aim."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--registries", type=Path, default=ROOT / "registries")
    parser.add_argument("targets", nargs="*", default=TARGETS, metavar="MODEL:BACKEND")
    args = parser.parse_args()
    print(f"{time.strftime('%Y-%m-%d %H:%M')}, {os.cpu_count()} CPUs, {ROUNDS} runs each")
    with stack(args.registries.absolute()) as (_, client):
        for target in args.targets:
            model, _, backend = target.partition(":")
            load_s = first_token_s(client, model, backend)
            warm = [first_token_s(client, model, backend) for _ in range(ROUNDS)]
            print(
                f"{target}: {statistics.median(warm):.2f} s to the first token, {min(warm):.2f} to {max(warm):.2f} "
                f"(aim: at most 1.0 s); the first run, which loads the engine: {load_s:.1f} s",
                flush=True,
            )


if __name__ == "__main__":
    main()
