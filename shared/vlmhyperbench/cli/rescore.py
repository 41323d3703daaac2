"""`rescore`: evaluate the answers of a run that has ended anew, without asking a model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from cyclopts import Parameter
from pydantic import JsonValue

from vlmhyperbench.cli.choices import check, read_extractor
from vlmhyperbench.cli.groups import SCORING, SUBMISSION
from vlmhyperbench.cli.shown import HUMAN, Shown
from vlmhyperbench.cli.watch import see_through
from vlmhyperbench.client import Client
from vlmhyperbench.wire.runs import RunRescore


def rescore(
    run_id: str,
    /,
    *,
    metric: Annotated[Sequence[str], Parameter(group=SCORING)] = (),
    extractor: Annotated[Sequence[str], Parameter(group=SCORING)] = (),
    on_invalid: Annotated[Literal["zero", "exclude"] | None, Parameter(group=SCORING)] = None,
    on_model_failure: Annotated[Literal["zero", "exclude"] | None, Parameter(group=SCORING)] = None,
    name: Annotated[str | None, Parameter(group=SUBMISSION)] = None,
    detach: Annotated[bool, Parameter(group=SUBMISSION)] = False,
    shown: Shown = HUMAN,
) -> int:
    """Score the answers of a finished run again: a new run that asks no model. Options not given stay the same.

    Args:
        run_id: Id of the run.
        metric: Registered metric, NAME[@PROFILE][:VERSION]; may be given several times.
        extractor: How answers are read, NAME[:VERSION] or JSON with its params; the first one counts.
        on_invalid: Score of an answer that cannot be parsed.
        on_model_failure: Score of a sample that the model failed to answer.
        name: Name of the new run.
        detach: Submit, print the id and return.
        shown: How the answer is shown.
    """
    given: dict[str, JsonValue] = {
        "metrics": list(metric) or None,
        "extractors": [read_extractor(text) for text in extractor] or None,
        "on_invalid": on_invalid,
        "on_model_failure": on_model_failure,
        "name": name,
    }
    choices = check(RunRescore, given)
    with Client() as client:
        created = client.runs.rescore(run_id, choices)
        return see_through(client, created, detach=detach, shown=shown)
