"""The sbatch file of workers that join a stack from a Slurm cluster: each array task is one worker with its devices."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from string import Template

_FILE = Template("""#!/bin/bash
# Workers of VLMHyperBench for $server, written by `vlmhyperbench slurm`. Each joins, works until it has been idle for
# $until_idle_s seconds or its time ends, and gives back what it could not finish. Running it again does no harm.
$directives
# Nothing of the submitter's environment, such as keys, goes to the nodes.
#SBATCH --export=NONE
# The batch shell hears of its end this many seconds before, and lets the worker finish the requests in flight.
#SBATCH --signal=B:TERM@$grace_s
#SBATCH --requeue
#SBATCH --open-mode=append
set -euo pipefail
umask 077

job=$${SLURM_JOB_ID:?start this file with sbatch}
$home
mkdir -p "$$VLMHB_HOME"
export VLMHB_HOME
$exports
join=()
if [ ! -e "$$VLMHB_HOME/run/settings.json" ]; then
    # The token stays in its file: arguments and variables can be read by others.
    join=(--server $server_word --token-file $token_file$ca_words)
fi
$start worker inference --name "slurm-$$job" --until-idle $until_idle_s "$${join[@]}" &
worker=$$!
trap 'kill -TERM "$$worker" 2>/dev/null || true' TERM INT
code=0
wait "$$worker" || code=$$?
while kill -0 "$$worker" 2>/dev/null; do  # a signal ends the first wait, but not the worker
    code=0
    wait "$$worker" || code=$$?
done
exit "$$code"
""")

_OWN_HOME = """# A folder of this node, removed in the end; the time limit of Slurm ends what hangs.
VLMHB_HOME=${TMPDIR:-/tmp}/vlmhb-$job
trap 'rm -rf "$VLMHB_HOME"' EXIT"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """What the workers are, and what they ask of the cluster."""

    server: str
    token_file: Path
    ca_file: Path | None
    sif: Path | None
    """Apptainer image of the inference worker; None: `program`."""
    program: str
    """Path of the command on the nodes, such as that of an environment on a shared file system."""
    workers: int
    gpus: int
    """GPUs of each worker; 0: it works on the CPU."""
    cpus: int
    memory: str
    time: str
    partition: str | None
    account: str | None
    home: Path | None
    """Folder on the nodes in which each array task has a home that stays; None: one that is removed."""
    models: Path | None
    """Folder of models that the workers share."""
    storage: Path | None
    """Folder of the stack's storage, which the nodes see at the same path; None: it is a bucket."""
    until_idle_s: int
    grace_s: int


def sbatch_file(batch: Batch) -> str:
    """Return the text of the sbatch file."""
    home = _OWN_HOME if batch.home is None else f"VLMHB_HOME={_word(batch.home)}/${{SLURM_ARRAY_TASK_ID:-0}}"
    return _FILE.substitute(
        server=batch.server,
        server_word=shlex.quote(batch.server),
        token_file=_word(batch.token_file),
        ca_words=f" --ca-file {_word(batch.ca_file)}" if batch.ca_file is not None else "",
        directives="\n".join(f"#SBATCH --{option}" for option in _options(batch)),
        home=home,
        exports="\n".join(f"export {name}={value}" for name, value in _settings(batch).items()),
        start=_start(batch),
        until_idle_s=batch.until_idle_s,
        grace_s=batch.grace_s,
    )


def _options(batch: Batch) -> list[str]:
    asked = {
        "job-name": "vlmhyperbench",
        "array": f"0-{batch.workers - 1}",
        "nodes": "1",
        "ntasks": "1",
        "cpus-per-task": str(batch.cpus),
        "mem": batch.memory,
        "gres": f"gpu:{batch.gpus}" if batch.gpus else None,
        "time": batch.time,
        "partition": batch.partition,
        "account": batch.account,
        "output": "vlmhyperbench-%A_%a.log",
    }
    return [f"{name}={value}" for name, value in asked.items() if value is not None]


def _settings(batch: Batch) -> dict[str, str]:
    """Return the settings of the worker, besides its home."""
    settings = {} if batch.models is None else {"VLMHB_MODELS_DIR": _word(batch.models)}
    if batch.gpus > 1:
        # The GPUs that Slurm shows the task are its worker's together: they count from 0, whichever they are.
        settings["VLMHB_GANGS"] = ",".join(map(str, range(batch.gpus)))
    return settings


def _start(batch: Batch) -> str:
    if batch.sif is None:
        return shlex.quote(batch.program)
    files = [path for path in (batch.token_file, batch.ca_file) if path is not None]
    binds = [f"--bind {_word(path)}:{_word(path)}:ro" for path in files]
    binds += [f"--bind {_word(folder)}" for folder in (batch.models, batch.storage) if folder is not None]
    passed = "".join(
        f"export APPTAINERENV_{name}\n"
        for name in (
            'VLMHB_HOME="$VLMHB_HOME"',
            'XDG_CACHE_HOME="$VLMHB_HOME/cache"',  # the image's is not writable
            # Workers of one node would want the same port, which the image opens to every network.
            'VLMHB_METRICS_PORT="${VLMHB_METRICS_PORT:-0}"',
            *(f'{name}="${name}"' for name in _settings(batch)),
            *(['CUDA_VISIBLE_DEVICES="${CUDA_VISIBLE_DEVICES:-}"'] if batch.gpus else []),
        )
    )
    options = ["--cleanenv", "--no-home", *(["--nv"] if batch.gpus else []), '--bind "$VLMHB_HOME"', *binds]
    return f"{passed}apptainer exec {' '.join(options)} {_word(batch.sif)} vlmhyperbench"


def _word(path: Path) -> str:
    return shlex.quote(str(path))
