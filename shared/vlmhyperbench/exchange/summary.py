"""Summarise a file of answers in one pass, for the pinned spec of a run that imports it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from vlmhyperbench.bounded import ChildBounds, run_bounded
from vlmhyperbench.errors import InvalidInput
from vlmhyperbench.exchange.answers import read_answers
from vlmhyperbench.wire.answers import Answers
from vlmhyperbench_sdk.types import JsonObject

MAX_REPEATS = 64
"""Maximum number of answers to a sample."""
MAX_REPORTED = 1000
"""Maximum number of distinct scores that a file may report."""
BOUNDS = ChildBounds(memory_bytes=1024**3, cpu_s=300, wall_s=600)
"""Resource limits of the child that validates an uploaded file."""


async def summarise(path: Path, *, sha256: str, bounds: ChildBounds = BOUNDS) -> Answers:
    """Validate a whole file in the neutral format in a bounded child; errors name the location `line:NUMBER`.

    Raises:
        InvalidInput: a line is malformed, a key and repeat are duplicated, there are no answers or too many; with the
            line.
    """
    try:
        summary = await run_bounded(summarise_here, str(path), sha256, what="the file", bounds=bounds)
    except InvalidInput as error:
        raise InvalidInput(error.message.replace(str(path), "line"), cure=error.cure, code=error.code) from error
    return Answers.model_validate(summary)


def summarise_here(path: str, sha256: str) -> JsonObject:
    """Summarise in this process and return the fields of `Answers`; the entry point of the child."""
    file = read_answers(Path(path))
    samples: set[str] = set()
    reported: Counter[str] = Counter()
    answers = repeats = referenced = 0
    for answer in file.answers:
        samples.add(answer.key)
        reported.update(answer.reported)
        if len(reported) > MAX_REPORTED:
            raise InvalidInput(
                f"{answer.location}: the file reports more than {MAX_REPORTED} different scores.",
                cure="Leave out fields that are no scores.",
            )
        answers += 1
        repeats = max(repeats, answer.repeat + 1)
        referenced += answer.references is not None
    if not answers:
        raise InvalidInput("The file holds no answers.", cure="Import a file with at least one.")
    if repeats > MAX_REPEATS:
        raise InvalidInput(f"A sample has {repeats} answers, more than {MAX_REPEATS}.", cure="Import fewer of them.")
    return {
        "sha256": sha256,
        "format": file.format,
        "tool": file.tool,
        "model": file.model,
        "task": file.task,
        "decoding": dict(file.decoding),
        "answers": answers,
        "samples": len(samples),
        "repeats": repeats,
        "referenced": referenced,
        "reported": [name for name, _ in sorted(reported.items(), key=lambda item: (-item[1], item[0]))],
    }
