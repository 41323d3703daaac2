"""The help of every command at 80 columns; `python -m tests.shared.cli.help_pages` writes the golden file."""

from __future__ import annotations

import io
import os
from contextlib import redirect_stdout
from pathlib import Path

from vlmhyperbench.cli.main import _COMMANDS, main

GOLDEN = Path(__file__).parent / "golden" / "help.txt"
_NESTED = (
    *(("registry", name) for name in ("ls", "show", "validate", "diff", "add", "push", "pull")),
    *(("registry", "add", name) for name in ("dataset", "metric", "model", "package")),
    *(
        ("models", name)
        for name in ("estimate", "fetch", "import", "list", "load", "remove", "show", "status", "unload")
    ),
    *(("envs", name) for name in ("list", "build", "check", "remove")),
    *(("pipeline", name) for name in ("ask", "export", "history", "rerun", "serve", "show")),
    *(("secret", name) for name in ("ls", "rm", "set")),
    *(("storage", name) for name in ("move", "pin", "restore", "status")),
    *(("workers", name) for name in ("drain", "list", "plan", "quarantines", "release-device", "resume")),
    *(("workers", "token", name) for name in ("create", "ls", "revoke")),
)
COMMANDS: tuple[tuple[str, ...], ...] = ((), *((name,) for name in _COMMANDS), *_NESTED)


def help_of(command: tuple[str, ...]) -> str:
    """Return what `vlmhyperbench COMMAND --help` prints."""
    out = io.StringIO()
    with redirect_stdout(out):
        assert main([*command, "--help"]) == 0
    return "\n".join(line.rstrip() for line in out.getvalue().rstrip().splitlines())


def pages() -> str:
    """Return the help of every command, one after the other."""
    os.environ["COLUMNS"] = "80"
    return "\n\n".join(
        f"$ {' '.join(('vlmhyperbench', *command, '--help'))}\n{help_of(command)}" for command in COMMANDS
    )


if __name__ == "__main__":
    GOLDEN.parent.mkdir(exist_ok=True)
    GOLDEN.write_text(pages() + "\n", encoding="utf-8")
