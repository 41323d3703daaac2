"""Read a file of answers once, and say what is in it: what pins a run that takes its answers from there."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from vlmhyperbench.errors import InvalidInput
from vlmhyperbench.exchange.answers import read_answers
from vlmhyperbench.wire.answers import Answers

MOST_REPEATS = 64


def summarise(path: Path, *, sha256: str) -> Answers:
    """Check a whole file in the neutral form.

    Raises:
        InvalidInput: a line is not of the form, a key and repeat come twice, or there are no answers; with its line.
    """
    file = read_answers(path)
    samples: set[str] = set()
    reported: Counter[str] = Counter()
    answers = repeats = referenced = 0
    for answer in file.answers:
        samples.add(answer.key)
        reported.update(answer.reported)
        answers += 1
        repeats = max(repeats, answer.repeat + 1)
        referenced += answer.references is not None
    if not answers:
        raise InvalidInput("The file holds no answers.", cure="Import a file with at least one.")
    if repeats > MOST_REPEATS:
        raise InvalidInput(f"A sample has {repeats} answers, more than {MOST_REPEATS}.", cure="Import fewer of them.")
    return Answers(
        sha256=sha256,
        format=file.format,
        tool=file.tool,
        model=file.model,
        task=file.task,
        decoding=dict(file.decoding),
        answers=answers,
        samples=len(samples),
        repeats=repeats,
        referenced=referenced,
        reported=[name for name, _ in sorted(reported.items(), key=lambda item: (-item[1], item[0]))],
    )
