"""Ask transformers the same questions from a virtualenv, a Docker container and a SIF, and compare the answers.

Usage: python -m benchmarks.same_answers [QUESTIONS]    `make same-answers` installs Docker and Apptainer first.

A stack of its own in a new folder builds the virtualenv of the registry's backend `transformers` from its pins. Exactly
these packages are copied into an image that holds Python alone; the platform builds the SIF from the archive of this
image. It exits with 1 where an answer differs or is missing, and removes all that it made.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from rich.console import Console
from rich.table import Table

from benchmarks.run import CLI, ended, stack
from vlmhyperbench.client import Client
from vlmhyperbench.registry.schemas import RunEntry

QUESTIONS = 200
BASE = os.environ.get("BASE_IMAGE", "vlmhyperbench-base:latest")
"""An image with the Python of this machine, such as that of tests/containers/install.sh."""
ENGINE = "/opt/engine"
VIRTUALENV, DOCKER, APPTAINER = "transformers", "transformers-docker", "transformers-sif"


class Asked(NamedTuple):
    """What a backend answered; seconds of building its environment, and from the POST of the run to its report."""

    built_s: float
    run_s: float
    answers: dict[str, str | None]


def main(questions: int) -> int:
    """Ask from each environment, print the table, and return the status."""
    if not os.environ.get("PIP_FIND_LINKS"):
        raise SystemExit("PIP_FIND_LINKS names no folder with a torch for processors, so gigabytes would be fetched.")
    _docker("image", "inspect", BASE)
    with _removed_at_the_end(f"vlmhyperbench-same-answers-{os.getpid()}") as name, stack() as (home, client):
        backends = home.root / "registries" / "backends"
        backends.mkdir(parents=True)
        place = {"python": f"{ENGINE}/bin/python"}
        asked = {"virtualenv": _asked(client, VIRTUALENV, questions)}
        image = _made_image(name, Path(_build(VIRTUALENV)["python"]))
        _write(backends / f"{DOCKER}.yaml", {"docker": {"image": image, **place}})
        asked["Docker"] = _asked(client, DOCKER, questions)
        archive = home.root / "engine.tar"
        _docker("save", "--output", str(archive), image)
        with archive.open("rb") as content:
            digest = hashlib.file_digest(content, "sha256").hexdigest()
        _write(backends / f"{APPTAINER}.yaml", {"apptainer": {"file": str(archive), "sha256": digest, **place}})
        asked["SIF"] = _asked(client, APPTAINER, questions)
    return _compared(asked, questions)


def _write(file: Path, environment: dict[str, Any]) -> None:
    entry = {"description": "The same packages in a container.", "default_backend_class": "transformers"}
    file.write_text(yaml.safe_dump({**entry, "environment": environment}))


def _build(backend: str) -> Any:
    """Build the environment of a backend as a user does, and return what the command prints."""
    done = subprocess.run([CLI, "envs", "build", backend, "--json"], stdout=subprocess.PIPE, check=False)
    answer = json.loads(done.stdout)["data"]
    if done.returncode != 0:
        raise SystemExit(f"The environment of {backend} cannot be built: {answer}")
    return answer


def _asked(client: Client, backend: str, questions: int) -> Asked:
    built_s = _build(backend)["seconds"]
    target = {
        "model": "tiny-doc-vlm-0.2-hf",
        "backend": backend,
        # Sums depend on the number of threads and of requests in a step, in their last bits.
        "engine_params": {"threads": 1, "max_batch": 1},
    }
    posted = time.monotonic()
    given = {"target": target, "task": "document-qa", "limit": questions, "reuse": "nothing"}
    run = ended(client, client.runs.create(RunEntry.model_validate(given)))
    run_s, answers, cursor = time.monotonic() - posted, {}, None
    while True:
        page = client.results(run_id=run.id, limit=500, cursor=cursor)
        answers.update({str(row.key): row.text for row in page.items})
        if (cursor := page.next) is None:
            return Asked(built_s, run_s, answers)


@contextmanager
def _removed_at_the_end(name: str) -> Iterator[str]:
    """Yield the name of a container and of its image, which are removed when no engine runs from them any more."""
    try:
        yield name
    finally:
        subprocess.run(["docker", "rm", "--force", name], check=False, capture_output=True)
        subprocess.run(["docker", "image", "rm", name], check=False, capture_output=True)


def _made_image(name: str, python: Path) -> str:
    """Make an image of the base and the packages of a virtualenv, and return its digest."""
    [packages] = python.parents[1].glob("lib/python3*/site-packages")
    inside = f"{ENGINE}/{packages.relative_to(python.parents[1])}"
    _docker("run", "--name", name, "--network=none", BASE, "python3", "-m", "venv", "--without-pip", ENGINE)
    _docker("cp", "--quiet", f"{packages}/.", f"{name}:{inside}")
    return _docker("commit", name, name)


def _docker(*words: str) -> str:
    done = subprocess.run(["docker", *words], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"docker {words[0]} fails: {done.stderr.strip()} `make same-answers`, as root, installs it.")
    return done.stdout.strip()


def _compared(asked: dict[str, Asked], questions: int) -> int:
    """Print what each environment took and how many answers are those of the virtualenv; return 1 unless all are."""
    table = Table("environment", "built", "run", "answers", "the same", title=f"{questions} questions to transformers")
    first, is_same = asked["virtualenv"].answers, True
    for name, (built_s, run_s, answers) in asked.items():
        there = sum(text is not None for text in answers.values())
        same = sum(text is not None and text == first.get(key) for key, text in answers.items())
        table.add_row(name, f"{built_s:.1f} s", f"{run_s:.1f} s", str(there), f"{same} of {questions}")
        is_same &= same == questions
    Console().print(table)
    return 0 if is_same else 1


if __name__ == "__main__":
    print(f"{datetime.now().astimezone():%Y-%m-%d %H:%M}, {os.cpu_count()} CPUs")
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else QUESTIONS))
