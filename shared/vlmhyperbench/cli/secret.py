"""`secret`: keys and tokens of this machine, one file of mode 0600 for each; no command ever shows a value."""

from __future__ import annotations

import getpass
import sys
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from vlmhyperbench.cli import exits
from vlmhyperbench.cli.output import emit, say, table
from vlmhyperbench.cli.shown import HUMAN, Shown
from vlmhyperbench.errors import InvalidInput, NotFound
from vlmhyperbench.files import write_whole
from vlmhyperbench.secret_files import MAX_SECRET_BYTES, is_secret_name, is_secret_value, read_secret
from vlmhyperbench.settings import Settings

app = App(name="secret", help="Store, list and remove keys and tokens.")

_MAX_SHOWN = 24


@app.command(name="set")
def set_(name: str, /, *surplus: Annotated[str, Parameter(show=False)], shown: Shown = HUMAN) -> int:
    """Store a secret; its value is prompted for, or read from stdin.

    Args:
        name: Name by which runs ask for it: letters, digits and `_`.
        surplus: Refused, without being repeated: the machine's list of processes shows every argument.
        shown: How the answer is shown.
    """
    path = _path(name)
    if surplus:
        cure = f"Run: vlmhyperbench secret set {name}, and type the value when it is asked for, or pipe it in."
        raise InvalidInput("A value is never an argument.", cure=cure, code="usage")
    value = _ask(name)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_whole(path, value.encode(), mode=0o600)
    if shown.json:
        emit("secret", {"name": name, "file": str(path)})
    else:
        say(f"The secret {name} is stored in {path}.")
    return exits.OK


@app.command(name="ls")
def list_(*, shown: Shown = HUMAN) -> int:
    """List the names of the secrets, and whether workers can use them.

    Args:
        shown: How the answer is shown.
    """
    folder = Settings.load().secrets_dir
    files = sorted(path for path in folder.iterdir() if is_secret_name(path.name)) if folder.is_dir() else []
    rows = [{"name": path.name, "problem": _problem(path)} for path in files]
    if shown.json:
        emit("secrets", rows)
    else:
        table(["name", "problem"], [list(row.values()) for row in rows])
    return exits.OK


@app.command
def rm(name: str, /, *, shown: Shown = HUMAN) -> int:
    """Remove a secret.

    Args:
        name: Name of the secret.
        shown: How the answer is shown.
    """
    path = _path(name)
    if not path.is_file():
        raise NotFound(f"There is no secret {name}.", cure="`vlmhyperbench secret ls` lists them.", code="no_secret")
    path.unlink()
    if shown.json:
        emit("secret", {"name": name, "file": None})
    else:
        say(f"The secret {name} is removed.")
    return exits.OK


def check_stored(names: list[str]) -> None:
    """Refuse names of which this machine has no secret.

    Raises:
        InvalidInput: a name is none.
        NotFound: there is no such secret.
    """
    for name in names:
        if not _path(name).is_file():
            # A long one may be the value, given by mistake: it is not repeated.
            shown_name = name if len(name) <= _MAX_SHOWN else "NAME"
            cure = f"A secret is named, and its value never given. Run: vlmhyperbench secret set {shown_name}"
            raise NotFound(f"There is no secret {shown_name}.", cure=cure, code="no_secret")


def _path(name: str) -> Path:
    if not is_secret_name(name):
        # It may be the value, given by mistake: it is not repeated.
        cure = "Choose a NAME of letters, digits and `_`, and run: vlmhyperbench secret set NAME"
        raise InvalidInput("What is given is no name of a secret.", cure=cure, code="usage")
    return Settings.load().secrets_dir / name


def _problem(path: Path) -> str | None:
    """Say why workers cannot use a secret; None where they can."""
    try:
        read_secret(path.parent, path.name)
    except (InvalidInput, NotFound) as error:
        return f"{error.message} {error.cure}"
    return None


def _ask(name: str) -> str:
    """Read a value, without showing it where somebody types it.

    Raises:
        InvalidInput: it is empty, too long, not one line of text, or there is none.
    """
    try:
        if sys.stdin.isatty():
            value = getpass.getpass(f"Value of {name}: ")
        else:
            value = sys.stdin.buffer.read(MAX_SECRET_BYTES + 1).decode()
    except UnicodeDecodeError as error:
        raise InvalidInput("The value is not UTF-8.", cure="Give one line of text.", code="usage") from error
    except EOFError as error:
        raise InvalidInput("There is no value.", cure="Type it, or pipe it in.", code="usage") from error
    value = value.strip()
    if not is_secret_value(value):
        message = f"The value is empty, longer than {MAX_SECRET_BYTES} bytes, or more than one line."
        raise InvalidInput(message, cure="Give one line of text.", code="usage")
    return value
