"""Run a program as a child that dies with this process, keep its output in a log, and say why it failed."""

from __future__ import annotations

import asyncio
import os
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final, TypeAlias
from urllib.parse import unquote, urlsplit

from vlmhyperbench.environments.base import full_disk
from vlmhyperbench.errors import InvalidInput, Unavailable, VlmHyperBenchError
from vlmhyperbench.logs import SecretMasker
from vlmhyperbench.processes import start_child

TIMEOUT_S: Final = 3600.0
"""Maximum duration of one step."""
PROGRAM_VARIABLES: Final = (
    *("PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_*", "TZ", "TMPDIR", "XDG_*"),
    *("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "no_proxy", "all_proxy"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"),
)
"""Variables of this process that a program inherits unless the caller names others."""
_TAIL_LINES: Final = 15
_MAX_LINE: Final = 400
_NO_SPACE: Final = re.compile(r"no space left on device|disk quota exceeded|os error 28\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One call of a program, and the error that its failure becomes."""

    argv: Sequence[str]
    log: Path
    cwd: Path
    what: str
    """What fails if it fails: the beginning of the error's message."""
    code: str
    cure: str
    program: str = "program"
    """What a message calls it, such as ssh."""
    timeout_s: float = TIMEOUT_S


Explain: TypeAlias = Callable[[Step, int, Sequence[str]], VlmHyperBenchError | None]
"""Receives a step that failed, its exit status and its output; returns the error, or None where it knows none."""


async def run_step(
    step: Step,
    *,
    inherited: Sequence[str] = PROGRAM_VARIABLES,
    secrets: Iterable[str] = (),
    explain: Explain = lambda *_: None,
) -> str:
    """Run a program to its end and return its output; if the caller is cancelled, it is killed with its children.

    Args:
        step: The call.
        inherited: Patterns of the only variables of this process that it inherits.
        secrets: What is masked in its output besides the passwords of URLs in its variables.
        explain: Knows reasons of a failure that this kind of program has.

    Raises:
        InvalidInput: it failed because of what it was asked to do; repeating it cannot help.
        Unavailable: the disk is full, or it takes too long.
        VlmHyperBenchError: what `explain` returns.
    """
    try:
        status, output = await run_logged(
            step.argv,
            log=step.log,
            cwd=step.cwd,
            variables=variables_like(inherited) | {"PYTHONUNBUFFERED": "1"},
            secrets=secrets,
            timeout_s=step.timeout_s,
        )
    except TimeoutError as error:
        message = f"{step.what}: the {step.program} did not end within {step.timeout_s:g} s."
        raise Unavailable(message, cure=f"Read {step.log}.", code="environment_timeout") from error
    if status != 0:
        raise explain(step, status, output) or _failure(step, output)
    return "\n".join(output)


def variables_like(patterns: Sequence[str]) -> dict[str, str]:
    """Return the variables of this process whose names match one of the patterns."""
    return {
        name: value for name, value in os.environ.items() if any(fnmatchcase(name, pattern) for pattern in patterns)
    }


async def run_logged(
    argv: Sequence[str],
    *,
    log: Path,
    cwd: Path,
    variables: Mapping[str, str],
    secrets: Iterable[str] = (),
    timeout_s: float = TIMEOUT_S,
) -> tuple[int, list[str]]:
    """Run a program with these variables only; append its output to a log, and return exit status and lines.

    `secrets` are masked, and the passwords of URLs in the variables, such as a proxy's.

    Raises:
        TimeoutError: it takes longer than `timeout_s`.
    """
    masker = SecretMasker([*secrets, *passwords_in(variables.values())])
    output: list[str] = []
    log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with log.open("a", encoding="utf-8") as file:
        async with (
            asyncio.timeout(timeout_s),
            await start_child(
                argv,
                env=variables,
                inherited=(),
                cwd=cwd,
                stdin=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.STDOUT,
            ) as child,
        ):
            while line := await child.stdout.readline():
                text = masker.mask(line.decode("utf-8", "replace").rstrip())
                output.append(text)
                file.write(text + "\n")
            return await child.wait(), output


def passwords_in(values: Iterable[str]) -> Iterator[str]:
    """Yield the passwords in the URLs among these values, each as it is written and as it is meant."""
    for value in values:
        for word in value.split():
            try:
                password = urlsplit(word).password
            except ValueError:  # it is no URL
                continue
            if password:
                yield password
                yield unquote(password)


def last_lines(output: Sequence[str]) -> str:
    """Return the end of a program's output, as a message shows it."""
    return "\n".join(line[:_MAX_LINE] for line in deque((line for line in output if line), maxlen=_TAIL_LINES))


def _failure(step: Step, output: Sequence[str]) -> VlmHyperBenchError:
    if _NO_SPACE.search("\n".join(output)):
        return full_disk(step.cwd)
    message = f"{step.what}. The end of the {step.program}'s log:\n{last_lines(output)}\n"
    return InvalidInput(message, cure=step.cure, code=step.code)
