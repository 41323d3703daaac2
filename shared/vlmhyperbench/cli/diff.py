"""`diff`: what differs between two evaluations, or between two runs."""

from __future__ import annotations

import json
import re
from dataclasses import asdict

from pydantic import JsonValue

from vlmhyperbench.cli import exits
from vlmhyperbench.cli.following import find
from vlmhyperbench.cli.output import emit, say, table
from vlmhyperbench.cli.shown import HUMAN, Shown
from vlmhyperbench.client import Client
from vlmhyperbench.domain.identity import Difference, differences
from vlmhyperbench.errors import InvalidInput
from vlmhyperbench.wire.runs import RunDetail

_EVALUATION = re.compile(r"e[0-9a-f]{12}")
_CELL_CHARS = 60


def diff(a: str, b: str, /, *, shown: Shown = HUMAN) -> int:
    """Show what differs between two evaluations (the short ids beside every quality number), or between two runs.

    Args:
        a: Short id of an evaluation, or id of a run.
        b: The other, of the same kind.
        shown: How the answer is shown.
    """
    if (_EVALUATION.fullmatch(a) is None) != (_EVALUATION.fullmatch(b) is None):
        raise InvalidInput("One id is an evaluation's and the other a run's.", cure="Give two of the same kind.")
    with Client() as client:
        found = list(differences(_described(client, a), _described(client, b)))
    if shown.json:
        emit("diff", {"a": a, "b": b, "differences": [asdict(difference) for difference in found]})
    else:
        _print(a, b, found)
    return exits.OK


def _described(client: Client, wanted: str) -> JsonValue:
    if _EVALUATION.fullmatch(wanted):
        return client.evaluation(wanted).components
    subject = find(client, wanted)
    if not isinstance(subject, RunDetail):
        raise InvalidInput(f"{wanted} is an experiment.", cure="Give two of its runs; `vlmhyperbench show` lists them.")
    spec: JsonValue = subject.spec.model_dump(mode="json")
    return spec


def _print(a: str, b: str, found: list[Difference]) -> None:
    if not found:
        say("Nothing differs.")
        return
    table(
        ["what", a[:13], b[:13]],
        [(difference.path, _short(difference.a), _short(difference.b)) for difference in found],
    )


def _short(value: JsonValue) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _CELL_CHARS else text[: _CELL_CHARS - 1] + "…"
