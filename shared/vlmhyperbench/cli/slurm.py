"""`slurm`: write an sbatch file for workers that join a stack from a Slurm cluster."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from vlmhyperbench.cli import exits
from vlmhyperbench.cli.groups import STACK
from vlmhyperbench.cli.output import emit, note, say
from vlmhyperbench.cli.output_flags import TEXT, OutputFlags
from vlmhyperbench.client.joining import check_server
from vlmhyperbench.errors import InvalidInput
from vlmhyperbench.files import write_whole
from vlmhyperbench.local.slurm import Batch, sbatch_file

_TIME = r"[0-9]+|[0-9]+:[0-5][0-9](:[0-5][0-9])?|[0-9]+-[0-9]{1,2}(:[0-5][0-9]){0,2}"
_MEMORY = r"[0-9]+[KMGT]?"
_NAME = r"[A-Za-z0-9_.,-]+"


def slurm(
    *,
    server: Annotated[str, Parameter(group=STACK)],
    token_file: Annotated[Path, Parameter(group=STACK)],
    ca_file: Annotated[Path | None, Parameter(group=STACK)] = None,
    sif: Annotated[Path | None, Parameter(group=STACK)] = None,
    program: Annotated[str, Parameter(group=STACK)] = "vlmhyperbench",
    workers: Annotated[int, Parameter(group=STACK)] = 1,
    gpus: Annotated[int, Parameter(group=STACK)] = 1,
    cpus: Annotated[int, Parameter(group=STACK)] = 4,
    memory: Annotated[str, Parameter(group=STACK)] = "32G",
    time: Annotated[str, Parameter(group=STACK)] = "04:00:00",
    partition: Annotated[str | None, Parameter(group=STACK)] = None,
    account: Annotated[str | None, Parameter(group=STACK)] = None,
    home: Annotated[Path | None, Parameter(group=STACK)] = None,
    models: Annotated[Path | None, Parameter(group=STACK)] = None,
    storage: Annotated[Path | None, Parameter(group=STACK)] = None,
    until_idle: Annotated[int, Parameter(group=STACK)] = 600,
    grace: Annotated[int, Parameter(group=STACK)] = 120,
    out: Annotated[Path, Parameter(group=STACK)] = Path("vlmhyperbench.sbatch"),
    output: OutputFlags = TEXT,
) -> int:
    """Write an sbatch file: an array of inference workers that join a stack, work until they are idle, and leave.

    Args:
        server: URL of the API of the stack, https://HOST:PORT.
        token_file: File with the join token, on a file system that the nodes see; it has to permit a join for each
            worker, and one more for each time that Slurm starts a worker again.
        ca_file: Certificate authority of the server, on the same file system; by default those of the nodes.
        sif: Apptainer image of the inference worker; by default the program is started as it is.
        program: Path of vlmhyperbench on the nodes, such as that of an environment on a shared file system.
        workers: Number of workers, each a task of the array.
        gpus: GPUs of each worker; 0 for workers on the CPU.
        cpus: Processors of each worker.
        memory: Memory of each worker, as Slurm writes it.
        time: Time limit of each worker, as Slurm writes it.
        partition: Partition of the cluster; by default that of the site.
        account: Account that pays; by default that of the site.
        home: Folder in which each task has a home that stays, with its environments; by default one that is removed.
        models: Folder of models that the workers share.
        storage: With --sif, folder of the stack's storage, which the nodes see at the same path; not for a bucket.
        until_idle: Seconds without a job after which a worker leaves.
        grace: Seconds before the time limit at which a worker stops taking jobs.
        out: File to write.
        output: How the output is printed.
    """
    for option, number, least in (
        ("--workers", workers, 1),
        ("--gpus", gpus, 0),
        ("--cpus", cpus, 1),
        ("--until-idle", until_idle, 1),
        ("--grace", grace, 60),
    ):
        if number < least:
            raise InvalidInput(f"{option} {number} is too small.", cure=f"Write at least {least}.", code="usage")
    for option, text, form, example in (
        ("--time", time, _TIME, "04:00:00 or 2-12:00:00"),
        ("--memory", memory, _MEMORY, "32G"),
        ("--partition", partition, _NAME, "gpu"),
        ("--account", account, _NAME, "lab"),
    ):
        if text is not None and re.fullmatch(form, text) is None:
            raise InvalidInput(f"{option} {text!r} is not valid.", cure=f"Write it like {example}.", code="usage")
    check_server(server)
    if storage is not None and sif is None:
        message = "--storage has no effect without --sif: a program that is no container sees the folder already."
        raise InvalidInput(message, cure="Leave it out, or give the image with --sif.", code="usage")
    for option, path in (("--ca-file", ca_file), ("--sif", sif)):
        if path is not None and not path.is_file():
            cure = "Write the path of a file that this machine and the nodes see."
            raise InvalidInput(f"{option}: there is no file {path}.", cure=cure, code="usage")
    _check_token(token_file)
    batch = Batch(
        server=server,
        token_file=token_file.absolute(),
        ca_file=ca_file.absolute() if ca_file is not None else None,
        sif=sif.absolute() if sif is not None else None,
        program=program,
        workers=workers,
        gpus=gpus,
        cpus=cpus,
        memory=memory,
        time=time,
        partition=partition,
        account=account,
        home=home.absolute() if home is not None else None,
        models=models.absolute() if models is not None else None,
        storage=storage.absolute() if storage is not None else None,
        until_idle_s=until_idle,
        grace_s=grace,
    )
    write_whole(out, sbatch_file(batch).encode(), mode=0o600)
    if output.json:
        emit("slurm", {"file": str(out), "workers": workers})
        return exits.OK
    note(f"Start the {workers} worker(s) with: sbatch {out}", output)
    say(str(out))
    return exits.OK


def _check_token(path: Path) -> None:
    try:
        mode = path.stat().st_mode
    except OSError as error:
        message = f"The token file {path} cannot be read: {error.strerror}."
        cure = "Make it on the server: vlmhyperbench workers token create --out FILE."
        raise InvalidInput(message, cure=cure, code="no_token") from error
    if mode & 0o077:
        message = f"The token file {path} may be read by others."
        raise InvalidInput(message, cure=f"Run: chmod 600 {path}", code="token_readable")
