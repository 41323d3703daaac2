"""`compose`: prepare a folder with compose.yaml for this machine, and check that the machine can run it."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import psutil
from cyclopts import Parameter

from vlmhyperbench.cli import exits
from vlmhyperbench.cli.checks import print_checks
from vlmhyperbench.cli.groups import STACK
from vlmhyperbench.cli.output import emit, note
from vlmhyperbench.cli.output_flags import TEXT, OutputFlags
from vlmhyperbench.deployment.checks import check_machine
from vlmhyperbench.deployment.compose_files import (
    COMPOSE,
    OVERRIDE,
    SECRETS,
    VARIABLES,
    is_gpu,
    override,
    read_env_file,
    variables_in,
    with_profiles,
)
from vlmhyperbench.deployment.secrets_of_stack import prepare_secrets
from vlmhyperbench.errors import NotFound, Unavailable
from vlmhyperbench.files import write_whole
from vlmhyperbench.settings import Settings
from vlmhyperbench.worker.shares import shares_of_machine


def compose(
    folder: Annotated[Path, Parameter(group=STACK)] = Path(),
    *,
    check: Annotated[bool, Parameter(group=STACK)] = False,
    output: OutputFlags = TEXT,
) -> int:
    """Write what `docker compose` needs on this machine, and check it; then start: `docker compose up -d --wait`.

    The files are .env with variables (what you have written there stays), .compose/ with secrets (made once), and
    compose.override.yaml with an inference worker for each GPU or gang of GPUs, and its memory. VLMHB_DEVICES and
    VLMHB_GANGS choose the GPUs, as for `up`. The exit code is 3 if the machine lacks something.

    Args:
        folder: Folder with compose.yaml; by default the current one.
        check: Only check the machine, and write nothing.
        output: How the output is printed.
    """
    if not (folder / COMPOSE).is_file():
        raise NotFound(
            f"There is no {COMPOSE} in {folder.absolute()}.",
            cure="Name the folder of a checkout of the platform.",
            code="no_compose_file",
        )
    shares = shares_of_machine(Settings.load(), name="gpu")
    memory_bytes = int(psutil.virtual_memory().total)
    env_file = with_profiles(read_env_file(folder / VARIABLES), shares)
    if not check:
        made = prepare_secrets(folder / SECRETS)
        try:
            write_whole(folder / OVERRIDE, override(shares, memory_bytes).encode())
            write_whole(folder / VARIABLES, env_file.encode())
        except OSError as error:
            message = f"{error.filename or folder} cannot be written: {error.strerror or error}."
            raise Unavailable(message, cure="Correct the permissions of the folder.", code="unwritable") from error
        gpus = sum(len(share.devices) for share in shares if is_gpu(share))
        note(f"{folder / SECRETS}: {len(made)} secrets made; {folder / OVERRIDE}: {gpus} GPUs", output)
    chosen = variables_in(env_file)
    checks = list(check_machine(folder, shares, chosen, memory_bytes))
    if output.json:
        emit("compose", {"profiles": chosen["COMPOSE_PROFILES"], "checks": [asdict(item) for item in checks]})
    else:
        print_checks(checks)
    return exits.OK if all(item.is_ok for item in checks) else exits.SETUP
