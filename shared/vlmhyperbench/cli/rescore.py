"""`rescore`: score the stored answers of a finished run again, without asking a model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from cyclopts import Parameter
from pydantic import JsonValue

from vlmhyperbench.cli.choices import check, read_extractor
from vlmhyperbench.cli.groups import SCORING, SUBMISSION
from vlmhyperbench.cli.output_flags import TEXT, OutputFlags
from vlmhyperbench.cli.watch import follow_submitted
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
    output: OutputFlags = TEXT,
) -> int:
    """Score the stored answers of a finished run again, in a new run. No model is asked.

    What is not given stays as in the old run.

    Args:
        run_id: Id of a finished run, or its first digits.
        metric: Registered metric, NAME[@PROFILE][:VERSION]; may be given several times.
        extractor: Registered extractor, NAME[:VERSION], or JSON with its name and params; may be given several times.
            The first one determines the main score.
        on_invalid: Score of an answer that cannot be parsed: zero, or exclude it.
        on_model_failure: Score of a sample that the model failed to answer: zero, or exclude it.
        name: Name of the new run; by default made from the name of the old run.
        detach: Print the id and return at once, without waiting for the end.
        output: How the output is printed.
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
        return follow_submitted(client, created, detach=detach, output=output)
