"""Compare plans on paper with what happens: the makespan of experiments on declared devices, planned and measured.

Usage: python -m benchmarks.planned [--rounds 3]

Twelve models of 2 to 20 GB share two devices of 24 GB, one of each worker; engines are simulated and have declared
timing, all else is real. Each model is measured before by a run of its own of a third of the samples, so that the plan
is of another number than what it knows. The real makespan is the time from the first claim of the experiment's
inference to the end of the last one.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
from rich.console import Console
from rich.table import Table
from sqlalchemy.engine import make_url

from benchmarks.run import ROOT, all_ended, stack
from vlmhyperbench.registry.schemas import ExperimentEntry, RunEntry
from vlmhyperbench.settings import Settings

MODELS, SAMPLES, MEASURED, IN_FLIGHT = 12, 48, 16, 8


def main() -> None:
    """Print the planned and the real makespan of each round."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    table = Table("round", "planned", "at the fastest to the slowest pace", "real", "real / planned", "load average")
    with _site() as registries, stack(registries) as (_, client):
        all_ended(client, [client.runs.create(_run(no)).id for no in range(MODELS)])
        for no in range(1, rounds + 1):
            experiment = _experiment()
            plan = client.plan(experiment.model_dump(mode="json", exclude_defaults=True))
            created = client.experiments.create(experiment)
            all_ended(client, [run.id for run in created.runs])
            real_s = _makespan_s(str(created.id))
            if plan.makespan_s is None or plan.shortest_s is None or plan.longest_s is None:
                raise SystemExit(f"The plan has no time: {plan}")
            between = f"{plan.shortest_s:.0f} to {plan.longest_s:.0f} s"
            ratio, load = f"{real_s / plan.makespan_s:.3f}", f"{os.getloadavg()[0]:.1f}"
            table.add_row(str(no), f"{plan.makespan_s:.1f} s", between, f"{real_s:.1f} s", ratio, load)
    Console(width=140).print(table)


@contextmanager
def _site() -> Iterator[Path]:
    """Make registries with the models, and declare two devices."""
    draw = random.Random(1)
    with tempfile.TemporaryDirectory(prefix="vlmhb-") as folder:
        registries, inventory = Path(folder) / "registries", Path(folder) / "inventory.yaml"
        shutil.copytree(ROOT / "registries", registries)
        for no in range(MODELS):
            params = (
                f"device_memory_gib: {draw.randint(2, 20) / 1.2:.2f}, ttft_ms: {draw.randint(500, 4000)}, gap_ms: 10, "
                f"tokens: 11, usage: always, seed: {no}"
            )
            (registries / "models" / f"drawn-{no}.yaml").write_text(
                f"description: A drawn model.\nbackends: [simulated]\nengine_params: {{{params}}}\n"
            )
        inventory.write_text("machine: bench\ndevices:\n  - {name: declared card, memory_gib: 24, count: 2}\n")
        os.environ.update({"VLMHB_INVENTORY": str(inventory), "VLMHB_INFERENCE_SLOTS": str(MODELS)})
        yield registries


def _run(model: int) -> RunEntry:
    given = {"target": {"model": f"drawn-{model}"}, "task": "synthetic-questions", **_choices(MEASURED)}
    return RunEntry.model_validate(given)


def _experiment() -> ExperimentEntry:
    targets = [{"model": f"drawn-{no}"} for no in range(MODELS)]
    matrix = {"targets": targets, "tasks": ["synthetic-questions"]}
    return ExperimentEntry.model_validate({"matrix": matrix, "defaults": _choices(SAMPLES)})


def _choices(samples: int) -> dict[str, object]:
    return {
        "dataset": {"name": "synthetic-questions", "limit": samples},
        "scenario": {"name": "offline", "in_flight": IN_FLIGHT},
        "shares_device": True,
        "reuse": "nothing",
    }


def _makespan_s(experiment_id: str) -> float:
    url = make_url(Settings.load().database_url.get_secret_value()).set(drivername="postgresql")
    with psycopg.connect(url.render_as_string(hide_password=False)) as connection:
        row = connection.execute(_MAKESPAN, {"experiment": experiment_id}).fetchone()
    return float(row[0]) if row else 0.0


_MAKESPAN = """
SELECT extract(epoch FROM max(c.ended_at) - min(c.started_at)) FROM claim c JOIN job j ON j.id = c.job_id
WHERE j.kind = 'GENERATE' AND j.experiment_id = %(experiment)s
"""

if __name__ == "__main__":
    main()
