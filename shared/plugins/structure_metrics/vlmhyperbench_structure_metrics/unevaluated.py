"""`unevaluatedProperties` and `unevaluatedItems`: find the parts of an object or list that a schema has evaluated.

JSON Schema 2020-12, core, sections 11.2 and 11.3. jsonschema's own implementation runs patterns by backtracking, looks
up names in a list, and follows references without counting.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from jsonschema.exceptions import ValidationError
from referencing.jsonschema import DRAFT202012

from vlmhyperbench_structure_metrics.patterns import finds

STEPS_OF_A_REFERENCE = 3
"""Cost of resolving another schema, in evaluated keywords."""

_ALL_ITEMS = "items", "unevaluatedItems"
_ALL_MEMBERS = "additionalProperties", "unevaluatedProperties"


def errors_of_the_rest(
    validator: Any, value: Any, instance: Any, schema: Any, *, spend: Callable[[int], None]
) -> Iterator[ValidationError]:
    """Validate the parts that `schema` has not evaluated against `value`; a keyword function for jsonschema.

    Args:
        validator: The validator of `schema`.
        value: The schema of the unevaluated parts.
        instance: An object or a list.
        schema: The schema with the keyword; its other keywords are valid.
        spend: Called for every step.
    """
    around = {name: part for name, part in schema.items() if not name.startswith("unevaluated")}
    seen = _evaluated(validator, instance, around, spend)
    for key in instance if isinstance(instance, dict) else range(len(instance)):
        if key not in seen:
            yield from validator.descend(instance[key], value)


def _evaluated(validator: Any, instance: Any, schema: Any, spend: Callable[[int], None]) -> set[str | int]:
    """Return the names or positions that a schema evaluates, if the instance is valid under it."""
    spend(STEPS_OF_A_REFERENCE)
    if isinstance(schema, bool):
        return set()
    seen = _members(schema, instance) if isinstance(instance, dict) else _items(validator, schema, instance)
    for inner, part in _applied(validator, schema, instance):
        seen |= _evaluated(inner, instance, part, spend)
    return seen


def _members(schema: Any, instance: Any) -> set[str | int]:
    if any(keyword in schema for keyword in _ALL_MEMBERS):
        return set(instance)
    patterns = [finds(pattern) for pattern in schema.get("patternProperties", {})]
    named = schema.get("properties", {})
    return {name for name in instance if name in named or any(is_meant(name) for is_meant in patterns)}


def _items(validator: Any, schema: Any, instance: Any) -> set[str | int]:
    if any(keyword in schema for keyword in _ALL_ITEMS):
        return set(range(len(instance)))
    seen: set[str | int] = set(range(min(len(schema.get("prefixItems", ())), len(instance))))
    if "contains" in schema:
        seen |= {no for no, item in enumerate(instance) if _is_valid(validator, item, schema["contains"])}
    return seen


def _applied(validator: Any, schema: Any, instance: Any) -> Iterator[tuple[Any, Any]]:
    """Yield the schemas that apply to the same instance, each with a validator of its location."""
    for keyword in ("$ref", "$dynamicRef"):
        if keyword in schema:
            resolved = validator._resolver.lookup(schema[keyword])  # noqa: SLF001 (what jsonschema's own keywords use)
            yield validator.evolve(schema=resolved.contents, _resolver=resolved.resolver), resolved.contents
    parts = [*schema.get("allOf", ())]
    parts += [
        part for name in ("anyOf", "oneOf") for part in schema.get(name, ()) if _is_valid(validator, instance, part)
    ]
    if "if" in schema:
        is_met = _is_valid(validator, instance, schema["if"])
        parts += [schema[name] for name in (("if", "then") if is_met else ("else",)) if name in schema]
    if isinstance(instance, dict):
        parts += [part for name, part in schema.get("dependentSchemas", {}).items() if name in instance]
    for part in parts:
        resolver = validator._resolver.in_subresource(DRAFT202012.create_resource(part))  # noqa: SLF001 (as above)
        yield validator.evolve(schema=part, _resolver=resolver), part


def _is_valid(validator: Any, instance: Any, schema: Any) -> bool:
    return next(validator.descend(instance, schema), None) is None
