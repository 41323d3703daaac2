"""`secret`: store, list and remove the secrets of this machine, one file of mode 0600 each; no value is printed."""

from __future__ import annotations

import getpass
import sys
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from vlmhyperbench.cli import exits
from vlmhyperbench.cli.output import emit, say, table
from vlmhyperbench.cli.output_flags import TEXT, OutputFlags
from vlmhyperbench.errors import InvalidInput, NotFound
from vlmhyperbench.files import write_whole
from vlmhyperbench.secret_files import MAX_SECRET_BYTES, is_secret_name, is_secret_value, read_secret
from vlmhyperbench.settings import Settings

app = App(name="secret", help="Store, list and remove API keys and tokens.")

_MAX_PRINTED = 24


@app.command(name="set")
def set_(name: str, /, *surplus: Annotated[str, Parameter(show=False)], output: OutputFlags = TEXT) -> int:
    """Store a secret. Its value is asked for, or read from stdin; it is never an argument.

    Args:
        name: Name of the secret, by which runs refer to it: letters, digits and `_`.
        surplus: Refused and not printed, because every user can read the arguments of processes.
        output: How the output is printed.
    """
    path = _path(name)
    if surplus:
        cure = f"Run `vlmhyperbench secret set {name}` and type the value when asked, or pipe it to stdin."
        raise InvalidInput("The value of a secret cannot be an argument.", cure=cure, code="usage")
    value = _ask(name)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_whole(path, value.encode(), mode=0o600)
    if output.json:
        emit("secret", {"name": name, "file": str(path)})
    else:
        say(f"The secret {name} is stored in {path}.")
    return exits.OK


@app.command(name="ls")
def list_(*, output: OutputFlags = TEXT) -> int:
    """List the names of the secrets, and what prevents workers from using them.

    Args:
        output: How the output is printed.
    """
    folder = Settings.load().secrets_dir
    files = sorted(path for path in folder.iterdir() if is_secret_name(path.name)) if folder.is_dir() else []
    rows = [{"name": path.name, "problem": _problem(path)} for path in files]
    if output.json:
        emit("secrets", rows)
    else:
        table(["name", "problem"], [list(row.values()) for row in rows])
    return exits.OK


@app.command
def rm(name: str, /, *, output: OutputFlags = TEXT) -> int:
    """Remove a secret.

    Args:
        name: Name of the secret.
        output: How the output is printed.
    """
    path = _path(name)
    if not path.is_file():
        cure = "`vlmhyperbench secret ls` lists all secrets."
        raise NotFound(f"There is no secret {name}.", cure=cure, code="no_secret")
    path.unlink()
    if output.json:
        emit("secret", {"name": name, "file": None})
    else:
        say(f"The secret {name} is removed.")
    return exits.OK


def check_stored(names: list[str]) -> None:
    """Check that this machine has a secret of each name.

    Raises:
        InvalidInput: a name is not allowed.
        NotFound: there is no such secret.
    """
    for name in names:
        if not _path(name).is_file():
            # A long name may be the value, given by mistake, so it is not printed.
            printed = name if len(name) <= _MAX_PRINTED else "NAME"
            cure = f"Give the name of a secret, never its value. To store it: vlmhyperbench secret set {printed}"
            raise NotFound(f"There is no secret {printed}.", cure=cure, code="no_secret")


def _path(name: str) -> Path:
    if not is_secret_name(name):
        # The text may be the value, given by mistake, so it is not printed.
        cure = "Choose a NAME of letters, digits and `_`, and run: vlmhyperbench secret set NAME"
        raise InvalidInput("The given text cannot be the name of a secret.", cure=cure, code="usage")
    return Settings.load().secrets_dir / name


def _problem(path: Path) -> str | None:
    """Return why workers cannot use a secret, or None if they can."""
    try:
        read_secret(path.parent, path.name)
    except (InvalidInput, NotFound) as error:
        return f"{error.message} {error.cure}"
    return None


def _ask(name: str) -> str:
    """Read a value from the terminal without echo, or from stdin.

    Raises:
        InvalidInput: the value is missing, empty, too long, or not one line of text.
    """
    try:
        if sys.stdin.isatty():
            value = getpass.getpass(f"Value of {name}: ")
        else:
            value = sys.stdin.buffer.read(MAX_SECRET_BYTES + 1).decode()
    except UnicodeDecodeError as error:
        raise InvalidInput("The value is not UTF-8.", cure="Give one line of UTF-8 text.", code="usage") from error
    except EOFError as error:
        raise InvalidInput("No value was given.", cure="Type the value, or pipe it to stdin.", code="usage") from error
    value = value.strip()
    if not is_secret_value(value):
        message = f"The value is empty, longer than {MAX_SECRET_BYTES} bytes, or more than one line."
        raise InvalidInput(message, cure="Give one line of UTF-8 text.", code="usage")
    return value
