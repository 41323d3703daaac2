"""`diff`: print what differs between two evaluations, or between two runs."""

from __future__ import annotations

import json
import re
from dataclasses import asdict

from pydantic import JsonValue

from vlmhyperbench.cli import exits
from vlmhyperbench.cli.following import find
from vlmhyperbench.cli.output import emit, say, table
from vlmhyperbench.cli.output_flags import TEXT, OutputFlags
from vlmhyperbench.client import Client
from vlmhyperbench.domain.identity import Difference, differences
from vlmhyperbench.errors import InvalidInput
from vlmhyperbench.wire.runs import RunDetail

_EVALUATION = re.compile(r"e[0-9a-f]{12}")
_CELL_CHARS = 60


def diff(a: str, b: str, /, *, output: OutputFlags = TEXT) -> int:
    """Show what differs between the definitions of two evaluations, or of two runs.

    An evaluation is everything that determines a quality value: data, prompt, metrics and so on. Reports print its
    short id beside each value.

    Args:
        a: Short id of an evaluation (e and 12 digits), or id of a run.
        b: Id of the other evaluation or run.
        output: How the output is printed.
    """
    if (_EVALUATION.fullmatch(a) is None) != (_EVALUATION.fullmatch(b) is None):
        raise InvalidInput(
            "One id is that of an evaluation, the other is not.",
            cure="Give two evaluations, or two runs.",
            code="usage",
        )
    with Client() as client:
        differing = list(differences(_described(client, a), _described(client, b)))
    if output.json:
        emit("diff", {"a": a, "b": b, "differences": [asdict(difference) for difference in differing]})
    else:
        _print(a, b, differing)
    return exits.OK


def _described(client: Client, wanted: str) -> JsonValue:
    if _EVALUATION.fullmatch(wanted):
        return client.evaluation(wanted).components
    subject = find(client, wanted)
    if not isinstance(subject, RunDetail):
        cure = f"Give two of its runs: `vlmhyperbench show {wanted}` lists them."
        raise InvalidInput(f"{wanted} is an experiment, not a run.", cure=cure)
    spec: JsonValue = subject.spec.model_dump(mode="json")
    return spec


def _print(a: str, b: str, differing: list[Difference]) -> None:
    if not differing:
        say("Nothing differs.")
        return
    table(
        ["what", a[:13], b[:13]],
        [(difference.path, _short(difference.a), _short(difference.b)) for difference in differing],
    )


def _short(value: JsonValue) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _CELL_CHARS else text[: _CELL_CHARS - 1] + "…"
