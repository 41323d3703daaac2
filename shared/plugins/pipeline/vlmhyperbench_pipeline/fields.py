"""Vote leaf by leaf over a JSON Schema: every field has the value that most members give it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Final

from vlmhyperbench_pipeline.counting import Counting, count, required_quorum
from vlmhyperbench_pipeline.json_votes import read_repaired, read_whole
from vlmhyperbench_pipeline.normalising import Normalise
from vlmhyperbench_pipeline.schemas import Parts, opening_under
from vlmhyperbench_sdk.aggregation import Aggregated, MemberAnswer
from vlmhyperbench_sdk.errors import InvalidInput
from vlmhyperbench_sdk.jsontext import NumberText, canonical, parse_json
from vlmhyperbench_sdk.types import JsonObject, JsonValue
from vlmhyperbench_structure_metrics.schemas import JsonSchema, read_schema

ABSENT: Final = "absent"
"""Key of the vote that a field is not there; keys of values begin with their kind and a colon."""
NO_SCHEMA: Final = "no JSON Schema is asked for"
NO_OBJECT: Final = "the JSON Schema is not one of an object"
TOO_FEW: Final = "fewer answers are JSON objects than must vote"

_PRESENT: Final = "present:"
_TEXT: Final = "text:"
_NULL: Final = "json:null"
_MAX_DEPTH: Final = 32
_KEPT: Final = 64
"""How many keys of texts in fields are kept: the members of a sample mostly write the same."""


@dataclass(frozen=True, slots=True)
class _Voice:
    """A member that speaks to a part of the object, and its value there; `has` is False where it leaves it out."""

    member: MemberAnswer
    has: bool
    value: JsonValue = None


@dataclass(slots=True)
class _Ballots:
    """The results of the leaves so far."""

    parts: Parts
    leaves: dict[str, Aggregated] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)
    """Path of an array that was counted as one leaf although its elements should have a key → why."""

    def shown(self) -> JsonValue:
        """Return the results as the trace has them."""
        shown = {path: _shown(leaf) for path, leaf in self.leaves.items()}
        for path, note in self.notes.items():
            shown[path]["note"] = note
        return {**shown}


class FieldVote:
    """Votes of fields. `array_keys` maps the pointer of an array to the field that identifies its elements.

    Other arrays are one leaf. Objects are followed along `properties` of the schema, through local references, and
    their other fields are leaves.
    """

    def __init__(self, counting: Counting, normalise: Normalise, array_keys: Mapping[str, str]) -> None:
        self._counting, self._normalise, self._array_keys = counting, normalise, dict(array_keys)
        self._keys = lru_cache(_KEPT)(normalise)
        self._compiled: tuple[JsonObject, JsonSchema] | None = None
        """The schema of the last sample; samples of one stage share it, as they do its parts."""
        self._parts: Parts | None = None

    def aggregate(self, members: Sequence[MemberAnswer], schema: JsonObject | None) -> Aggregated:
        """Count the fields of the members' JSON; an answer that is no JSON object abstains in all of them.

        The object is validated as a whole. Where it is not valid, or there is none, whole answers are counted instead.
        """
        whole = {text: read_whole(text) for text in {member.text for member in members} if text is not None}
        parsed = {text: value or read_repaired(text) for text, value in whole.items()}
        parts = self._parts_of(schema or {})
        is_array = opening_under(parts.whole) == "["
        known = {text: self._whole_key(text, value, list if is_array else dict) for text, value in parsed.items()}
        keys = [None if member.text is None else known[member.text] for member in members]
        if schema is None or is_array:
            return self._whole(members, keys, {"fallback": NO_SCHEMA if schema is None else NO_OBJECT})
        read = [None if member.text is None else parsed[member.text] for member in members]
        objects = [value[0] if value is not None and isinstance(value[0], dict) else None for value in read]
        n_valid = len(objects) - objects.count(None)
        if n_valid < max(1, required_quorum(self._counting.quorum, len(members))):
            return self._whole(members, keys, {"fallback": TOO_FEW})
        ballots = _Ballots(parts)
        voices = [
            _Voice(member, has=True, value=value) if value is not None else _Voice(_silent(member), has=False)
            for member, value in zip(members, objects, strict=True)
        ]
        made = self._object(voices, parts.whole, "", ballots, depth=0)
        text = canonical(made)
        problem = self._problem(text, schema)
        fields = ballots.shown()
        if problem is not None:
            return self._whole(members, keys, {"fields": fields, "fallback": problem})
        leaves = ballots.leaves.values() or [self._whole(members, keys, {})]
        return Aggregated(
            value=next(_written(members, whole, text), text),
            status="ok",
            n_valid=n_valid,
            key=text,
            support=min(leaf.support or 0 for leaf in leaves),
            confidence=min(leaf.confidence or 0 for leaf in leaves),
            margin=min(leaf.margin or 0 for leaf in leaves),
            tie=any(leaf.tie for leaf in leaves),
            dissent=tuple(member.name for member in members if any(member.name in leaf.dissent for leaf in leaves)),
            trace={"keys": keys, "fields": fields},
        )

    def _problem(self, text: str, schema: JsonObject) -> str | None:
        """Return why the object is not valid under the schema; None if it is."""
        try:
            if self._compiled is None or self._compiled[0] is not schema:
                self._compiled = schema, read_schema(dict(schema))
            is_valid = self._compiled[1].is_valid(parse_json(text, any_text=True))
        except InvalidInput as error:
            return error.message
        return None if is_valid else "the fields together are not valid under the schema"

    def _whole(
        self, members: Sequence[MemberAnswer], keys: Sequence[str | None], trace: Mapping[str, JsonValue]
    ) -> Aggregated:
        """Count whole answers; equal JSON is equal, and similar texts are where similar fields are."""
        counted = count(members, keys, self._counting, linked=_TEXT)
        return replace(counted, trace={**counted.trace, **trace})

    def _whole_key(self, text: str, read: tuple[JsonValue] | None, kind: type) -> str | None:
        if read is not None and isinstance(read[0], kind):
            return f"json:{canonical(read[0], text=self._folded)}"
        key = self._normalise(text)
        return None if key is None else f"{_TEXT}{key}"

    def _folded(self, text: str) -> str:
        """Return the key of a text in a field; one that is not of the declared type is only equal to itself."""
        key = self._keys(text)
        return text if key is None else key

    def _parts_of(self, schema: JsonObject) -> Parts:
        if self._parts is None or self._parts.root is not schema:
            self._parts = Parts(schema)
        return self._parts

    def _object(
        self, voices: Sequence[_Voice], schema: JsonObject, path: str, ballots: _Ballots, *, depth: int
    ) -> dict[str, JsonValue]:
        properties = schema.get("properties")
        declared = properties if isinstance(properties, Mapping) else {}
        made: dict[str, JsonValue] = {}
        for name in _unique((*declared, *_names(voices))):
            inner = [_below(voice, name) for voice in voices]
            has, value = self._value(inner, declared.get(name), f"{path}/{_escaped(name)}", ballots, depth=depth + 1)
            if has:
                made[name] = value
        return made

    def _value(
        self, voices: Sequence[_Voice], schema: JsonValue, path: str, ballots: _Ballots, *, depth: int
    ) -> tuple[bool, JsonValue]:
        """Return whether the part is there, and what it is."""
        own = ballots.parts.resolved(schema)
        is_object = "properties" in own
        key = self._array_keys.get(path)
        if depth >= _MAX_DEPTH or not (is_object or key is not None):
            return self._leaf(voices, path, ballots)
        kind: type = dict if is_object else list
        fitting = [voice for voice in voices if voice.has and isinstance(voice.value, kind)]
        if not fitting:
            return self._leaf(voices, path, ballots)
        unkeyed = [] if is_object else [voice.member.name for voice in fitting if not _has_keys(voice.value, key)]
        if unkeyed:
            ballots.notes[path] = f"{unkeyed[0]} has an element without {key}"
            return self._leaf(voices, path, ballots)
        has = self._presence(voices, kind)
        if has.status != "ok" or has.key != _PRESENT:
            ballots.leaves[path] = has
            return has.status == "ok" and has.key == _NULL, None
        if is_object:
            return True, self._object(_only(voices, kind), own, path, ballots, depth=depth)
        items = ballots.parts.resolved(own.get("items"))
        return True, self._elements(_only(voices, kind), items, path, str(key), ballots, depth=depth)

    def _elements(
        self, voices: Sequence[_Voice], schema: JsonObject, path: str, key: str, ballots: _Ballots, *, depth: int
    ) -> list[JsonValue]:
        """Vote on each element by itself: whether it is there, then its fields; in the order of the first member."""
        named = [dict(_identified(voice.value, key)) if voice.has else {} for voice in voices]
        made: list[JsonValue] = []
        for identity in _unique(identity for elements in named for identity in elements):
            inner = [
                _Voice(voice.member, has=identity in elements, value=elements.get(identity))
                for voice, elements in zip(voices, named, strict=True)
            ]
            at = f"{path}/{_escaped(identity)}"
            has = self._presence(inner, dict)
            ballots.leaves[at] = has
            if has.status == "ok" and has.key == _PRESENT:
                made.append(self._object(_only(inner, dict), schema, at, ballots, depth=depth + 1))
        return made

    def _presence(self, voices: Sequence[_Voice], kind: type) -> Aggregated:
        """Vote on whether a part is there at all, and not null; something else in its place abstains."""
        return self._count(voices, [_presence_of(voice, kind) for voice in voices])

    def _leaf(self, voices: Sequence[_Voice], path: str, ballots: _Ballots) -> tuple[bool, JsonValue]:
        values = {id(voice.value): voice.value for voice in voices if voice.has}
        known = {identity: self._key(value) for identity, value in values.items()}
        keys = [known[id(voice.value)] if voice.has else ABSENT for voice in voices]
        result = ballots.leaves[path] = self._count(voices, keys)
        if result.status != "ok" or result.key == ABSENT:
            return False, None
        return True, next(voice.value for voice, key in zip(voices, keys, strict=True) if key == result.key)

    def _key(self, value: JsonValue) -> str | None:
        if isinstance(value, str) and not isinstance(value, NumberText):
            return f"{_TEXT}{self._folded(value)}"
        return f"json:{canonical(value)}"

    def _count(self, voices: Sequence[_Voice], keys: Sequence[str | None]) -> Aggregated:
        members = [voice.member for voice in voices]
        spoken = [None if member.text is None else key for member, key in zip(members, keys, strict=True)]
        return count(members, spoken, self._counting, linked=_TEXT)


def _silent(member: MemberAnswer) -> MemberAnswer:
    """Return a member that abstains in every field, because its answer is no object."""
    return MemberAnswer(name=member.name, error=member.error or "no JSON object", weight=member.weight)


def _only(voices: Sequence[_Voice], kind: type) -> list[_Voice]:
    """Return the voices, those silent that leave the part out or have something else in its place."""
    return [
        voice if voice.has and isinstance(voice.value, kind) else _Voice(_silent(voice.member), has=False)
        for voice in voices
    ]


def _written(members: Sequence[MemberAnswer], whole: Mapping[str, tuple[JsonValue] | None], text: str) -> Iterator[str]:
    """Yield the answers that are the voted object and nothing else: as they are written, with their order of keys."""
    for member in members:
        value = None if member.text is None else whole[member.text]
        if member.text is not None and value is not None and canonical(value[0]) == text:
            yield member.text


def _names(voices: Iterable[_Voice]) -> Iterator[str]:
    for voice in voices:
        if isinstance(voice.value, dict):
            yield from voice.value


def _below(voice: _Voice, name: str) -> _Voice:
    if isinstance(voice.value, dict) and name in voice.value:
        return _Voice(voice.member, has=True, value=voice.value[name])
    return _Voice(voice.member, has=False)


def _presence_of(voice: _Voice, kind: type) -> str | None:
    if not voice.has:
        return ABSENT
    if isinstance(voice.value, kind):
        return _PRESENT
    return _NULL if voice.value is None else None


def _has_keys(value: JsonValue, key: str | None) -> bool:
    return isinstance(value, list) and all(isinstance(element, dict) and key in element for element in value)


def _identified(value: JsonValue, key: str) -> Iterator[tuple[str, JsonValue]]:
    """Yield the elements of an array with their identity: the key, and which one of those with this key it is."""
    seen: Counter[str] = Counter()
    for element in value if isinstance(value, list) else ():
        if isinstance(element, dict):
            named = canonical(element[key])
            seen[named] += 1
            yield named if seen[named] == 1 else f"{named} ({seen[named]})", element


def _unique(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


def _shown(leaf: Aggregated) -> dict[str, JsonValue]:
    shown: dict[str, JsonValue] = {"key": leaf.key, "status": leaf.status, "confidence": leaf.confidence}
    if leaf.tie:
        shown["tie"] = True
    if leaf.dissent:
        shown["dissent"] = list(leaf.dissent)
    return shown
