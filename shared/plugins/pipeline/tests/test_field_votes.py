"""Fields of JSON answers are voted on one by one, and the object must be valid as a whole."""

from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from vlmhyperbench_pipeline.vote import Vote
from vlmhyperbench_sdk.aggregation import AggregationContext, MemberAnswer
from vlmhyperbench_sdk.types import JsonObject, JsonValue

INVOICE: JsonObject = {
    "type": "object",
    "required": ["total"],
    "additionalProperties": False,
    "properties": {
        "total": {"type": "number"},
        "vendor": {"type": "object", "properties": {"name": {"type": "string"}, "city": {"type": "string"}}},
        "items": {"type": "array", "items": {"type": "object", "properties": {"sku": {}, "count": {}}}},
        "note": {"type": ["string", "null"]},
    },
}


def members(*answers: JsonValue) -> list[MemberAnswer]:
    """Build members m0, m1 …; a text is an answer as it is, None one that failed."""
    return [
        MemberAnswer(name=f"m{number}", error="timeout")
        if answer is None
        else MemberAnswer(name=f"m{number}", text=answer if isinstance(answer, str) else json.dumps(answer))
        for number, answer in enumerate(answers)
    ]


def merged(*answers: JsonValue, schema: JsonObject = INVOICE, **params: object) -> tuple[JsonValue, str, JsonObject]:
    """Return the merged value, the status and the trace."""
    vote = Vote(scope="field", **params)  # type: ignore[arg-type]  # any params
    result = vote.aggregate(members(*answers), AggregationContext(schema=schema))
    return None if result.value is None else json.loads(result.value), result.status, result.trace


def test_each_field_has_the_value_of_most_members() -> None:
    answers = (
        {"total": 10, "vendor": {"name": "ACME", "city": "Rome"}},
        {"total": 10.0, "vendor": {"name": "acme.", "city": "Oslo"}, "note": "x"},
        {"total": 11, "vendor": {"name": "Acme", "city": "Oslo"}},
    )
    result = Vote(scope="field").aggregate(members(*answers), AggregationContext(schema=INVOICE))
    assert result.value == '{"total":10,"vendor":{"city":"Oslo","name":"ACME"}}'
    assert (result.status, result.n_valid, result.confidence) == ("ok", 3, 2 / 3)
    assert result.dissent == ("m0", "m1", "m2")
    fields = result.trace["fields"]
    assert isinstance(fields, dict)
    assert list(fields) == ["/total", "/vendor/name", "/vendor/city", "/items", "/note"]
    assert fields["/note"] == {"key": "absent", "status": "ok", "confidence": 2 / 3, "dissent": ["m1"]}


def test_a_voted_object_that_a_member_has_written_is_given_as_it_was_written() -> None:
    texts = ('```json\n{"b": 1, "a": 2}\n```', '{"b": 1, "a": 2}', '{"a": 3}')
    answers = [MemberAnswer(name=f"m{no}", text=text) for no, text in enumerate(texts)]
    result = Vote(scope="field").aggregate(answers, AggregationContext(schema={"type": "object"}))
    assert (result.value, result.key) == ('{"b": 1, "a": 2}', '{"a":2,"b":1}')


def test_a_vote_by_field_without_a_schema_says_that_it_counted_whole_answers() -> None:
    counted = Vote(scope="field").aggregate(members({"a": 1}, {"a": 1}, {"a": 2}))
    assert (counted.value, counted.trace["fallback"]) == ('{"a": 1}', "no JSON Schema is asked for")
    assert "fallback" not in Vote().aggregate(members({"a": 1})).trace


def test_an_answer_that_is_no_object_abstains_in_every_field() -> None:
    value, status, trace = merged({"total": 1}, "nonsense", [1], None, {"total": 1}, quorum=2)
    assert (value, status) == ({"total": 1}, "ok")
    assert isinstance(trace["fields"], dict)
    assert trace["fields"]["/total"] == {"key": "json:1", "status": "ok", "confidence": 0.4}
    assert merged({"total": 1}, "nonsense", None, None)[1] == "no_quorum"
    assert merged("nonsense", "more")[1] == "no_valid"


def test_elements_of_an_array_are_the_same_by_their_key() -> None:
    answers = (
        {"total": 1, "items": [{"sku": "a", "count": 1}, {"sku": "b", "count": 2}, {"sku": "a", "count": 9}]},
        {"total": 1, "items": [{"sku": "b", "count": 2}, {"sku": "a", "count": 3}, {"name": "no key"}]},
        {"total": 1, "items": [{"sku": "a", "count": 3}, {"sku": "c", "count": 5}, "no object"]},
    )
    value, status, _ = merged(*answers, array_keys={"/items": "sku"})
    assert status == "ok"
    assert value == {"total": 1, "items": [{"sku": "a", "count": 3}, {"sku": "b", "count": 2}]}
    whole, _, trace = merged(*answers)
    assert whole == {"total": 1, "items": answers[0]["items"]}
    assert isinstance(trace["fields"], dict)
    assert trace["fields"]["/items"]["tie"] is True  # type: ignore[index,call-overload]  # it is an object


def test_a_part_that_most_leave_out_is_left_out() -> None:
    vendor = {"total": 1, "vendor": {"name": "x"}}
    assert merged(vendor, {"total": 1}, {"total": 1})[0] == {"total": 1}
    assert merged(vendor, {"total": 1, "vendor": 5}, {"total": 1, "vendor": {"name": "x"}})[0] == vendor
    odd = {"total": 1, "vendor": 5}
    value, status, trace = merged(odd, odd)
    assert (value, status) == (odd, "ok")
    assert trace["fallback"] == "the fields together are not valid under the schema"


def test_an_object_that_is_not_valid_gives_way_to_whole_answers() -> None:
    one_of: JsonObject = {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
        "required": ["a"],
        "not": {"properties": {"a": {"const": 1}, "b": {"const": 1}}, "required": ["a", "b"]},
    }
    answers = ({"a": 1, "b": 2}, {"a": 2, "b": 1}, {"a": 1, "b": 1, "c": 0})
    result = Vote(scope="field").aggregate(members(*answers), AggregationContext(schema=one_of))
    assert (result.status, result.value, result.tie) == ("ok", json.dumps(answers[0]), True)
    assert result.trace["fallback"] == "the fields together are not valid under the schema"
    unmet = merged({"total": 1}, {"total": 2}, rule="majority")
    assert unmet[:2] == (None, "rule_unmet")


def test_a_schema_that_cannot_be_used_gives_way_to_whole_answers() -> None:
    schema: JsonObject = {"type": "object", "properties": {"a": {"$ref": "elsewhere"}}}
    value, status, trace = merged({"a": 1}, {"a": 1}, schema=schema)
    assert (value, status) == ({"a": 1}, "ok")
    assert isinstance(trace["fallback"], str)


def test_without_a_schema_whole_answers_are_counted() -> None:
    result = Vote(scope="field").aggregate(members("x", "x", "y"))
    assert (result.value, result.confidence) == ("x", 2 / 3)


def test_fields_without_a_schema_of_their_own_are_leaves() -> None:
    value, _, _ = merged({"a": {"b": 1}}, {"a": {"b": 1.0}}, {"a": {"b": 2}}, schema={"type": "object"})
    assert value == {"a": {"b": 1}}
    odd: JsonObject = {"properties": []}
    assert merged({"a/b~c": " "}, {"a/b~c": " "}, schema={"type": "object", "properties": {"x": odd}})[0] == {
        "a/b~c": " "
    }
    assert merged({}, {}, schema={"type": "object"})[0] == {}


def test_a_schema_that_is_deeper_than_is_followed_ends_in_a_leaf() -> None:
    schema: JsonObject = {"type": "integer"}
    answer: JsonValue = 1
    for _ in range(40):
        schema, answer = {"type": "object", "properties": {"a": schema}}, {"a": answer}
    assert merged(answer, answer, schema=schema)[0] == answer


VALUES = st.sampled_from([1, 2, "x", "y", None, True, [1], {"name": "n"}])
OBJECTS = st.dictionaries(st.sampled_from(["total", "vendor", "items", "note", "more"]), VALUES, max_size=4)


@settings(max_examples=40)
@given(st.lists(OBJECTS | st.sampled_from(["nonsense", "[1]"]) | st.none(), min_size=1, max_size=5))
def test_a_vote_by_field_never_raises_and_keeps_what_all_agree_on(answers: list[JsonValue]) -> None:
    value, status, trace = merged(*answers, quorum=1, array_keys={"/items": "sku"})
    assert (value is None) == (status != "ok")
    objects = [answer for answer in answers if isinstance(answer, dict)]
    agree = len(objects) == len(answers) and all(answer == objects[0] for answer in objects)
    if agree and "fallback" not in trace and not isinstance(objects[0].get("items"), list):
        assert value == objects[0]
