"""JSON Schema 2020-12's keywords in an implementation that is safe for untrusted answers: bounded, linear, exact.

jsonschema evaluates the keywords. Replaced are those that run regular expressions by backtracking (`pattern`,
`patternProperties`, `additionalProperties`, `unevaluatedProperties`), compare all pairs of items (`uniqueItems`,
`unevaluatedItems`) or divide binary fractions (`multipleOf`: 1.1 is a multiple of 0.01). Every keyword counts as a
step, and following a reference again for the same value while it is being evaluated is a loop.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from decimal import Context, Decimal
from typing import Any

from jsonschema import Draft202012Validator, validators
from jsonschema.exceptions import ValidationError

from vlmhyperbench_sdk.errors import InvalidInput
from vlmhyperbench_sdk.types import JsonValue
from vlmhyperbench_structure_metrics.patterns import finds
from vlmhyperbench_structure_metrics.unevaluated import STEPS_OF_A_REFERENCE, errors_of_the_rest

MAX_STEPS = 1_000_000
"""Maximum number of evaluated keywords of an answer, which take ten to twenty seconds."""

MAX_NESTED = 180
"""Maximum nesting of keywords, each about four of Python's 1,000 frames: 45 levels of a recursive schema.

Running out of frames instead would depend on the caller, and inside the library's hash maps it ends the process.
"""

Keyword = Callable[[Any, Any, Any, Any], Iterable[ValidationError] | None]
"""(validator, the keyword's value, instance, schema) → errors, as jsonschema calls it."""


_EXACT = Context(prec=10_000)
"""More digits than any quotient of two parsed numbers: integers have up to 4,300, other numbers reach 1e±324."""


class _Run:
    """The steps of a validation, and the references that it is following."""

    __slots__ = ("left", "nested", "open")

    def __init__(self) -> None:
        self.left = MAX_STEPS
        self.nested = 0
        self.open: set[tuple[int, int]] = set()

    def spend(self, steps: int) -> None:
        self.left -= steps
        if self.left < 0:
            raise InvalidInput(
                f"The JSON Schema needs more than {MAX_STEPS:,} steps for this answer.",
                cure="Write a simpler schema, with fewer alternatives and references.",
                code="schema_too_costly",
            )


_RUN: ContextVar[_Run] = ContextVar("_RUN")


@contextmanager
def bounded_run() -> Iterator[None]:
    """Use a new budget for the validation inside the block."""
    token = _RUN.set(_Run())
    try:
        yield
    finally:
        _RUN.reset(token)


def _bounded(keyword: Keyword) -> Keyword:
    """Count a keyword as a step, and stop at its first error, because only its existence matters."""

    def evaluate(validator: Any, value: Any, instance: Any, schema: Any) -> Iterable[ValidationError]:
        run = _RUN.get()
        run.spend(1)
        if run.nested == MAX_NESTED:
            raise InvalidInput(
                f"The JSON Schema nests more than {MAX_NESTED} keywords for this answer.",
                cure="Write a flatter schema.",
                code="schema_too_deep",
            )
        run.nested += 1
        try:
            first = next(iter(keyword(validator, value, instance, schema) or ()), None)
        finally:
            run.nested -= 1
        return () if first is None else (first,)

    return evaluate


def _without_loop(keyword: Keyword) -> Keyword:
    """Refuse to follow a reference from the same location for the same value while it is being followed."""

    def evaluate(validator: Any, value: Any, instance: Any, schema: Any) -> Iterable[ValidationError]:
        run, here = _RUN.get(), (id(schema), id(instance))
        if here in run.open:
            raise InvalidInput(
                f"The JSON Schema refers to itself by {str(value)[:60]!r} without end.",
                cure="Refer to the schema of a part of the value, such as of its items.",
                code="schema_loop",
            )
        run.spend(STEPS_OF_A_REFERENCE)
        run.open.add(here)
        try:
            return list(keyword(validator, value, instance, schema) or ())
        finally:
            run.open.discard(here)

    return evaluate


def _unevaluated_properties(validator: Any, schema: Any, instance: Any, around: Any) -> Iterator[ValidationError]:
    if isinstance(instance, dict):
        yield from errors_of_the_rest(validator, schema, instance, around, spend=_RUN.get().spend)


def _unevaluated_items(validator: Any, schema: Any, instance: Any, around: Any) -> Iterator[ValidationError]:
    if isinstance(instance, list):
        yield from errors_of_the_rest(validator, schema, instance, around, spend=_RUN.get().spend)


def _pattern(_validator: Any, pattern: str, instance: Any, _schema: Any) -> Iterator[ValidationError]:
    if isinstance(instance, str) and not finds(pattern)(instance):
        yield ValidationError("The text does not match the pattern.")


def _pattern_properties(validator: Any, patterns: Any, instance: Any, _schema: Any) -> Iterator[ValidationError]:
    if not isinstance(instance, dict):
        return
    for pattern, schema in patterns.items():
        is_meant = finds(pattern)
        for name, value in instance.items():
            if is_meant(name):
                yield from validator.descend(value, schema)


def _additional_properties(validator: Any, schema: Any, instance: Any, around: Any) -> Iterator[ValidationError]:
    if not isinstance(instance, dict):
        return
    named = around.get("properties", {})
    patterns = [finds(pattern) for pattern in around.get("patternProperties", {})]
    for name, value in instance.items():
        if name not in named and not any(is_meant(name) for is_meant in patterns):
            yield from validator.descend(value, schema)


def _unique_items(_validator: Any, is_wanted: bool, instance: Any, _schema: Any) -> Iterator[ValidationError]:
    if is_wanted and isinstance(instance, list) and len(set(map(_canonical, instance))) < len(instance):
        yield ValidationError("Two items are equal.")


def _multiple_of(_validator: Any, step: Any, instance: Any, _schema: Any) -> Iterator[ValidationError]:
    if isinstance(instance, bool) or not isinstance(instance, (int, float)):
        return
    if _EXACT.remainder(_decimal(instance), _decimal(step)):
        yield ValidationError("The number is not a multiple.")


def _decimal(number: float) -> Decimal:
    """Return a number with its decimal value: 0.1 is a tenth."""
    return Decimal(number) if isinstance(number, int) else Decimal(repr(number))


def _canonical(value: JsonValue) -> str:
    """Return a text that is the same exactly for equal values: 1 and 1.0 are equal, 1 and true are not."""
    return json.dumps(_whole(value), sort_keys=True)


def _whole(value: JsonValue) -> JsonValue:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [_whole(item) for item in value]
    if isinstance(value, dict):
        return {name: _whole(item) for name, item in value.items()}
    return value


_OWN: dict[str, Keyword] = {
    "additionalProperties": _additional_properties,
    "multipleOf": _multiple_of,
    "pattern": _pattern,
    "patternProperties": _pattern_properties,
    "unevaluatedItems": _unevaluated_items,
    "unevaluatedProperties": _unevaluated_properties,
    "uniqueItems": _unique_items,
    **{name: _without_loop(Draft202012Validator.VALIDATORS[name]) for name in ("$ref", "$dynamicRef")},
}

_extended: Any = validators.extend  # which says nothing of its types
SafeValidator = _extended(
    Draft202012Validator,
    {name: _bounded(keyword) for name, keyword in {**Draft202012Validator.VALIDATORS, **_OWN}.items()},
)
