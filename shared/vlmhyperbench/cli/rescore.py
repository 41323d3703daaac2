"""`rescore`: evaluate the answers of a run that has ended anew, without asking a model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from cyclopts import Parameter
from pydantic import JsonValue

from vlmhyperbench.cli.choices import check, read_extractor
from vlmhyperbench.cli.shown import HUMAN, Shown
from vlmhyperbench.cli.watch import see_through
from vlmhyperbench.client import Client
from vlmhyperbench.wire.runs import RunRescore


def rescore(
    run_id: str,
    /,
    *,
    metric: Annotated[Sequence[str], Parameter(negative=())] = (),
    extractor: Annotated[Sequence[str], Parameter(negative=())] = (),
    on_invalid: Literal["zero", "exclude"] | None = None,
    on_model_failure: Literal["zero", "exclude"] | None = None,
    name: str | None = None,
    detach: Annotated[bool, Parameter(negative=())] = False,
    shown: Shown = HUMAN,
) -> int:
    """Evaluate the answers of a run that has ended anew: a new run that asks no model. What is not said stays.

    Args:
        run_id: Id of the run.
        metric: Registered metric, NAME[@PROFILE][:VERSION]; may be given several times.
        extractor: How answers are read, NAME[:VERSION] or JSON with its params; the first one counts.
        on_invalid: What an answer counts as that cannot be read.
        on_model_failure: What a failure of the model counts as.
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
