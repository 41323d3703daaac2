"""Measure how long a stack of compose.yaml takes from built images and empty volumes to its first answer and report.

Usage: python -m benchmarks.compose_start FOLDER    FOLDER is a checkout that `vlmhyperbench compose` has prepared.

It refuses a folder whose stack has containers or volumes, and removes at the end all that it made.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.table import Table

from vlmhyperbench.client import Client
from vlmhyperbench.deployment.compose_files import SECRETS, VARIABLES, read_env_file, variables_in
from vlmhyperbench.errors import VlmHyperBenchError
from vlmhyperbench.registry.schemas import RunEntry

AIM_S = 60.0
GIVE_UP_S = 600.0
RUN = {
    "target": {"model": "tiny-doc-vlm"},
    "task": "document-qa",
    "dataset": {"name": "synthetic-documents", "limit": 20},
}


def main(folder: Path) -> None:
    """Start the stack, ask, print the table, and remove the stack."""
    project = json.loads(_docker(folder, "compose", "config", "--format", "json"))["name"]
    label = f"label=com.docker.compose.project={project}"
    if _docker(folder, "ps", "-aq", "--filter", label) or _docker(folder, "volume", "ls", "-q", "--filter", label):
        raise SystemExit(f"The stack {project} of {folder} has containers or volumes; choose a folder without.")
    table = Table("since `docker compose up`", "seconds", title=f"From images to an answer; aim: {AIM_S:g} s")
    began = time.monotonic()

    def note(what: str) -> None:
        table.add_row(what, f"{time.monotonic() - began:.1f}")

    try:
        _docker(folder, "compose", "up", "--detach", "--pull", "never")
        note("all containers started")
        port = variables_in(read_env_file(folder / VARIABLES)).get("VLMHB_PORT") or "8760"
        with Client(f"http://127.0.0.1:{port}", (folder / SECRETS / "api_key").read_text().strip()) as client:
            _until(lambda: client.runs.list(limit=1) is not None)
            note("the API answers")
            run = client.runs.create(RunEntry.model_validate(RUN))
            _until(lambda: client.runs.get(run.id).done > 0)
            note("first answer stored")
            _until(lambda: client.runs.get(run.id).state.is_terminal)
            note(f"report of a run of 20 samples ({client.runs.get(run.id).state})")
    finally:
        _docker(folder, "compose", "--profile", "*", "down", "--volumes", "--remove-orphans")
    Console().print(table)


def _until(holds: Callable[[], bool]) -> None:
    give_up_at = time.monotonic() + GIVE_UP_S
    while time.monotonic() < give_up_at:
        try:
            if holds():
                return
        except VlmHyperBenchError:  # the API is not up yet
            pass
        time.sleep(0.1)
    raise SystemExit(f"No answer within {GIVE_UP_S:g} s.")


def _docker(folder: Path, *words: str) -> str:
    done = subprocess.run(["docker", *words], cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"docker {' '.join(words)}: {done.stderr.strip()}")
    return done.stdout.strip()


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    main(Path(sys.argv[1]))
