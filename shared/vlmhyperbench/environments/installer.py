"""Run an installer of packages: what it may know of this machine, which passwords it has, and when no index answers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from vlmhyperbench.environments.installer_commands import INSTALLER_VARIABLES
from vlmhyperbench.environments.programs import Step, last_lines, run_step, variables_like
from vlmhyperbench.errors import Unavailable

_UNREACHABLE: Final = re.compile(
    r"error sending request|connection (refused|reset|error)|dns error|timed out|status server error"
    r"|network is unreachable|max retries exceeded|newconnectionerror|temporary failure in name resolution",
    re.IGNORECASE,
)
_PASSWORDS: Final = re.compile(r"PASSWORD|TOKEN|_KEY$")


async def run_installer(step: Step) -> str:
    """Run an installer to its end and return its output; the passwords of its indexes are masked.

    Raises:
        InvalidInput: it failed because of what it was asked to install; repeating it cannot help.
        Unavailable: the disk is full, an index cannot be reached, or it takes too long.
    """
    call = replace(step, program="installer")
    return await run_step(call, inherited=INSTALLER_VARIABLES, secrets=index_passwords(), explain=_no_index)


def is_unreachable(output: Sequence[str]) -> bool:
    """Return whether an installer says that a server does not answer."""
    return _UNREACHABLE.search("\n".join(output)) is not None


def _no_index(step: Step, _status: int, output: Sequence[str]) -> Unavailable | None:
    """Return the error of an index that does not answer; None where an installer failed for another reason."""
    if not is_unreachable(output):
        return None
    message = (
        f"{step.what}, because an index of packages does not answer."
        f" The end of the {step.program}'s log:\n{last_lines(output)}\n"
    )
    cure = "Check the network, and the index that uv's configuration or UV_DEFAULT_INDEX names."
    return Unavailable(message, cure=cure, code="index_unreachable")


def index_passwords() -> list[str]:
    """Return the passwords and tokens of indexes; those in URLs are masked in the output of every program."""
    variables = variables_like(INSTALLER_VARIABLES)
    return [value for name, value in variables.items() if _PASSWORDS.search(name)]
