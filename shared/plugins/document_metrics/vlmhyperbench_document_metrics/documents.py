"""Parse answers and references as JSON documents, in the same way for every metric of the package."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Union

from vlmhyperbench_document_metrics.rows import NO_REFERENCE, TOO_LARGE, gather
from vlmhyperbench_document_metrics.work import TooLarge
from vlmhyperbench_sdk.errors import InvalidInput
from vlmhyperbench_sdk.jsontext import parse_json, repair_json
from vlmhyperbench_sdk.params import check_choice, check_flag
from vlmhyperbench_sdk.protocols import INVALID_ANSWER
from vlmhyperbench_sdk.types import JsonValue, Measure, Measures

INVALID_REFERENCE = "invalid_reference"

Container = Union[dict[str, JsonValue], list[JsonValue]]

_MEANT_AS_JSON = re.compile(r'\s*(?:\{\s*"|\[\s*[\[{"])')


class NotJson(Exception):
    """An answer is not JSON, even after the declared repairs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonAnswers:
    """How a metric parses JSON answers."""

    on_invalid: Literal["exclude", "zero"] = "exclude"
    """Score of an answer that is not JSON: no value, or 0."""
    repair: bool = False
    """Whether the content of a code fence, or the first balanced object or array, is parsed instead."""

    def __post_init__(self) -> None:
        check_choice("on_invalid", self.on_invalid, ("exclude", "zero"))
        check_flag("repair", self.repair)

    def read(self, answer: str, reference: Container) -> JsonValue:
        """Parse an answer; repairs search for an object or an array, like the reference.

        Raises:
            NotJson: it is not strict JSON.
        """
        if self.repair:
            answer, _ = repair_json(answer, opening="{" if isinstance(reference, dict) else "[")
        try:
            return parse_json(answer, any_text=True)
        except InvalidInput as error:
            raise NotJson(str(error)) from error

    def __str__(self) -> str:
        repaired = ", else its first code fence or first balanced object or array" if self.repair else ""
        worth = "has no value" if self.on_invalid == "exclude" else "is worth 0"
        return f"answers are JSON to the letter{repaired}; anything else {worth}"


def read_container(reference: str) -> Container | None:
    """Parse a reference that is a JSON object or array; None for any other text."""
    try:
        value = parse_json(reference, any_text=True)
    except InvalidInput:
        return None
    return value if isinstance(value, (dict, list)) else None


def is_broken_json(reference: str) -> bool:
    """Return whether a text begins like a JSON object or array, but is neither."""
    return bool(_MEANT_AS_JSON.match(reference)) and read_container(reference) is None


def best(measures: Sequence[Measure]) -> Measure:
    """Return the measure with the highest value, the first of equal ones; without values, the first reason.

    If a comparison took too much work, the sample has no value, because that comparison might be the best.
    """
    too_large = next((measure for measure in measures if measure.reason == TOO_LARGE), None)
    scored = [measure for measure in measures if measure.value is not None]
    if too_large or not scored:
        return too_large or measures[0]
    return max(scored, key=lambda measure: measure.value or 0.0)


def measure_documents(
    answers: Sequence[str],
    references: Sequence[Sequence[str]],
    reading: JsonAnswers,
    *,
    compare: Callable[[Container, JsonValue], Measure],
    unreadable: Callable[[Container], Measure],
    statistics: Sequence[str],
) -> Measures:
    """Measure answers against each of their references, which are JSON objects or arrays; the best measure counts.

    Args:
        answers: The model's answers. Shape: (samples,).
        references: The accepted answers. Shape: (samples,).
        reading: How answers are parsed.
        compare: Measures a parsed answer against a reference; may raise `TooLarge`.
        unreadable: Measure of an answer that is not JSON against a reference, under `on_invalid: zero`.
        statistics: Columns of every batch.
    """
    rows = (
        _measure(answer, own, reading, compare, unreadable) for answer, own in zip(answers, references, strict=True)
    )
    return gather(list(rows), statistics)


def _measure(
    answer: str,
    references: Sequence[str],
    reading: JsonAnswers,
    compare: Callable[[Container, JsonValue], Measure],
    unreadable: Callable[[Container], Measure],
) -> Measure:
    if not references:
        return Measure.unscored(NO_REFERENCE)
    measures: list[Measure] = []
    for text in references:
        reference = read_container(text)
        if reference is None:
            return Measure.unscored(INVALID_REFERENCE)
        try:
            measures.append(compare(reference, reading.read(answer, reference)))
        except TooLarge:
            measures.append(Measure.unscored(TOO_LARGE))
        except NotJson:
            excluded = reading.on_invalid == "exclude"
            measures.append(Measure.unscored(INVALID_ANSWER) if excluded else unreadable(reference))
    return best(measures)
