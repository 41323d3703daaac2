"""`python -m vlmhyperbench.environments.remote_end RECORD`: return a rented machine as soon as nobody uses it.

It is started before the machine is rented, leaves the tree of processes of its starter, and waits for the
machine's lock, which the worker and then the gateway hold. So the machine is returned however they end.

Meanwhile it has a session with a terminal on the machine, the only sign by which SkyPilot there sees that it is in use.
If this process is killed too, or the whole computer fails, that session ends, the machine ends itself after
`max_idle_minutes`, and the next worker starts this program for every record that is left.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import subprocess
import sys
import time
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path
from typing import IO, Final

from vlmhyperbench.domain.environments import Cloud, VirtualenvSpec
from vlmhyperbench.environments.base import tell_nobody
from vlmhyperbench.environments.installer import Step, run_step
from vlmhyperbench.environments.local_venv import prepared_virtualenv
from vlmhyperbench.environments.ssh import Machine
from vlmhyperbench.environments.store import EnvironmentStore
from vlmhyperbench.environments.wheels import Workshop
from vlmhyperbench.errors import VlmHyperBenchError

SKYPILOT: Final = "0.14.1"
SKY_PROGRAM: Final = Path(__file__).with_name("remote_sky.py")
SKY_VARIABLES: Final = (
    *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_*", "TZ", "TMPDIR"),
    *("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "no_proxy", "all_proxy"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "SSH_AUTH_SOCK", "SKYPILOT_*", "RUNPOD_API_BASE_URL"),
    *("AWS_PROFILE", "AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE", "AZURE_CONFIG_DIR", "CLOUDSDK_*"),
    *("GOOGLE_APPLICATION_CREDENTIALS", "OCI_CONFIG"),
)
"""Variables that SkyPilot inherits: none is a secret; it reads those of providers from their files in HOME."""
_POLL_S = 5.0
_SILENT_S = 120
"""After so many seconds without a sign from here the session on the machine ends."""
_IN_USE: Final = ("bash", "-c", f"while read -r -t {_SILENT_S}; do :; done")
_PAUSES_S: Final = (0, 15, 60, 240, 900)
"""Before each try to return a machine."""


def skypilot_spec(cloud: Cloud) -> VirtualenvSpec:
    """Return SkyPilot's own environment, with what it needs for a provider."""
    return VirtualenvSpec(requirements=(f"skypilot[{cloud}]=={SKYPILOT}",), overrides=("click==8.1.8",))


def start(record: Path) -> None:
    """Start this program for a machine; it goes on when the caller ends."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if any(fnmatchcase(name, pattern) for pattern in (*SKY_VARIABLES, "UV_*", "PIP_*"))
    }
    subprocess.run(
        [sys.executable, "-m", "vlmhyperbench.environments.remote_end", str(record)],
        env=kept,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        check=True,
    )


def return_forgotten(environments: Path) -> list[str]:
    """Return every rented machine that nobody uses; return the names of those that have a record."""
    names = machines_in(environments)
    for name in names:
        start(environments / "machines" / f"{name}.json")
    return names


def machines_in(environments: Path) -> list[str]:
    """Return the names of the machines that were rented and not returned yet."""
    return sorted(record.stem for record in (environments / "machines").glob("*.json"))


def _return(record: Path) -> None:
    """Wait until nobody uses a machine, return it, and remove its record; the next worker does it if this fails."""
    with record.with_suffix(".lock").open("ab") as lock:
        _wait(record, lock)
        if not record.exists():  # another process has returned it
            return
        about = json.loads(record.read_text(encoding="utf-8"))
        os.environ["HOME"] = about["home"]  # where SkyPilot has its own record of the machine
        for pause_s in _PAUSES_S:
            time.sleep(pause_s)
            try:
                asyncio.run(_give_back(about["name"], about["cloud"], record.parent.parent, Path(about["logs"])))
            except VlmHyperBenchError:  # it stands in the log
                continue
            for suffix in (".hosts", ".lock", ".json"):
                record.with_suffix(suffix).unlink(missing_ok=True)
            return


def _wait(record: Path, lock: IO[bytes]) -> None:
    """Wait until nobody uses a machine, and show the machine meanwhile that somebody does."""
    session: subprocess.Popen[bytes] | None = None
    try:
        while not _is_free(lock):
            if session is None or session.poll() is not None:
                session = _show_use(record)
            elif session.stdin is not None:
                with suppress(OSError):  # it has ended; the next turn starts another
                    session.stdin.write(b"\n")
                    session.stdin.flush()
            time.sleep(_POLL_S)
    finally:
        if session is not None:
            session.kill()


def _is_free(lock: IO[bytes]) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _show_use(record: Path) -> subprocess.Popen[bytes] | None:
    """Start a session with a terminal on a machine; None before the machine is up, or after it was returned."""
    with suppress(FileNotFoundError):
        about = json.loads(record.read_text(encoding="utf-8")).get("machine")
        if about is not None:
            argv = Machine(**about).ssh(record.with_suffix(".hosts"), _IN_USE, has_terminal=True)
            quiet = subprocess.DEVNULL
            return subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=quiet, stderr=quiet)
    return None


async def _give_back(name: str, cloud: Cloud, folder: Path, logs: Path) -> None:
    workshop = Workshop(store=EnvironmentStore(folder), logs=logs, secrets_dir=folder / "no-secrets")
    async with prepared_virtualenv(skypilot_spec(cloud), workshop, tell=tell_nobody) as sky:
        await run_step(
            Step(
                argv=[sky.python, "-I", str(SKY_PROGRAM), json.dumps({"do": "return", "name": name})],
                log=logs / f"remote-{name}.log",
                cwd=folder,
                what=f"The machine {name} cannot be returned",
                code="machine_not_returned",
                cure=f"Return it on the page of {cloud}.",
                inherited=SKY_VARIABLES,
            )
        )


if __name__ == "__main__":
    if os.fork() == 0:  # the caller waits for this process only, so it has no child that it must bury
        _return(Path(sys.argv[1]))
    os._exit(0)
