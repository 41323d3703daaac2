"""Fields of JSON answers are voted on one by one, and the object must be valid as a whole."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vlmhyperbench_pipeline.schemas import opening_of, resolved
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


def members(*answers: object) -> list[MemberAnswer]:
    """Build members m0, m1 …; a text is an answer as it is, None one that failed."""
    return [
        MemberAnswer(name=f"m{number}", error="timeout")
        if answer is None
        else MemberAnswer(name=f"m{number}", text=answer if isinstance(answer, str) else json.dumps(answer))
        for number, answer in enumerate(answers)
    ]


def merged(*answers: object, schema: JsonObject = INVOICE, **params: object) -> tuple[JsonValue, str, JsonObject]:
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
    assert merged({"total": 1}, "nonsense", None, None, quorum=3)[1] == "no_quorum"


def test_where_too_few_answers_are_objects_all_texts_are_counted() -> None:
    result = Vote(scope="field").aggregate(
        members({"total": 1}, "It is ACME.", "it is acme", None), AggregationContext(schema=INVOICE)
    )
    assert (result.value, result.status, result.confidence, result.n_valid) == ("It is ACME.", "ok", 0.5, 3)
    assert result.trace == {
        "keys": ['json:{"total":1}', "text:it is acme", "text:it is acme", None],
        "fallback": "fewer answers are JSON objects than must vote",
    }


def test_under_the_schema_of_an_array_equal_arrays_are_equal() -> None:
    """The answers are no objects, and stay the vote of all members."""
    texts = ('Here: [{"sku": "A", "n": 1.0}]', "[1]", '[ {"n": 1, "sku": "a"} ]', '{"sku": "a", "n": 1}')
    schema: JsonObject = {"$defs": {"list": {"items": {}}}, "anyOf": [{"$ref": "#/$defs/list"}, {"type": "null"}]}
    for root in (schema, {"type": "array"}):
        result = Vote(scope="field").aggregate(members(*texts), AggregationContext(schema=root))
        assert (result.value, result.status, result.support, result.n_valid) == (texts[0], "ok", 2.0, 4)
        assert result.trace["fallback"] == "the JSON Schema is not one of an object"
        keys = result.trace["keys"]
        assert isinstance(keys, list)
        assert keys[:3] == ['json:[{"n":1,"sku":"a"}]', "json:[1]", 'json:[{"n":1,"sku":"a"}]']


def test_every_vote_by_field_says_as_what_each_answer_counted() -> None:
    answers = ('{"total": 1, "note": "Paid."}', '{"note":"paid","total":1.0}', "nothing", '{"total": 2}', None)
    _, _, trace = merged(*answers)
    assert trace["keys"] == [*['json:{"note":"paid","total":1}'] * 2, "text:nothing", 'json:{"total":2}', None]
    _, _, fallen = merged('{"total": "1"}', '{"total":"1"}', None)
    assert (fallen["keys"], "fallback" in fallen) == ([*['json:{"total":"1"}'] * 2, None], True)


def test_only_texts_are_similar() -> None:
    numbers = ({"total": 1234510}, {"total": 1234519}, {"total": 1234519})
    assert merged(*numbers, equivalence="fuzzy")[0] == {"total": 1234519}
    short = ({"total": 1, "note": "ab"}, {"total": 1, "note": "ac"}, {"total": 1, "note": "ac"})
    assert merged(*short, equivalence="fuzzy")[0] == short[1]
    dates = ({"total": 1, "note": "2024-03-01"}, {"total": 1, "note": "2024-03-02"}, {"total": 1, "note": "2024-03-02"})
    assert merged(*dates, equivalence="fuzzy")[0] == dates[1]
    kinds = ({"total": 1, "note": "json one"}, {"total": 1, "note": "json two"}, {"total": 1})
    assert merged(*kinds, equivalence="fuzzy", ties=["abstain"])[0] == {"total": 1}
    houses = ("the blue house on the hill", "the blue house on the hills!", "a red one")
    similar = [{"total": 1, "note": house} for house in houses]
    value, _, trace = merged(*similar, equivalence="fuzzy")
    assert value == similar[0]
    assert isinstance(trace["fields"], dict)
    assert trace["fields"]["/note"]["dissent"] == ["m2"]  # type: ignore[index,call-overload]  # it is an object
    # Whole answers in JSON are equal or not; those that are text are similar.
    whole = Vote(scope="field", equivalence="fuzzy").aggregate(members(*houses))
    assert (whole.value, whole.support) == (houses[0], 2.0)
    assert whole.trace["keys"] == [f"text:{houses[0]}", f"text:{houses[0]}", "text:a red one"]


def test_elements_of_an_array_are_the_same_by_their_key() -> None:
    answers = (
        {"total": 1, "items": [{"sku": "a", "count": 1}, {"sku": "b", "count": 2}]},
        {"total": 1, "items": [{"sku": "b", "count": 2}, {"sku": "a", "count": 3}]},
        {"total": 1, "items": [{"sku": "a", "count": 3}, {"sku": "c", "count": 5}]},
    )
    value, status, _ = merged(*answers, array_keys={"/items": "sku"})
    assert status == "ok"
    assert value == {"total": 1, "items": [{"sku": "a", "count": 3}, {"sku": "b", "count": 2}]}
    whole, _, trace = merged(*answers)
    assert whole == {"total": 1, "items": answers[0]["items"]}
    assert isinstance(trace["fields"], dict)
    assert trace["fields"]["/items"]["tie"] is True  # type: ignore[index,call-overload]  # it is an object


def test_elements_with_the_same_key_stay_apart() -> None:
    coffee = {"sku": "Coffee", "count": 1}
    receipt = {"total": 1, "items": [coffee, {"sku": "Cake", "count": 1}, coffee]}
    other = {"total": 1, "items": [coffee, {"sku": "Coffee", "count": 2}]}
    keys = {"/items": "sku"}
    assert merged(receipt, receipt, receipt, array_keys=keys)[0] == receipt
    value, _, trace = merged(receipt, other, other, array_keys=keys)
    assert value == other
    assert isinstance(trace["fields"], dict)
    assert '/items/"Coffee" (2)/count' in trace["fields"]


def test_an_array_with_an_element_without_its_key_is_one_leaf() -> None:
    for odd in ({"count": 2}, "x"):
        partly: dict[str, JsonValue] = {"total": 1, "items": [{"sku": "a", "count": 1}, odd]}
        keyed: dict[str, JsonValue] = {"total": 1, "items": [{"sku": "a", "count": 1}]}
        value, status, trace = merged(partly, keyed, partly, array_keys={"/items": "sku"})
        assert (value, status) == (partly, "ok")
        fields = trace["fields"]
        assert isinstance(fields, dict)
        leaf = fields["/items"]
        assert isinstance(leaf, dict)
        assert (leaf["note"], leaf["dissent"]) == ("m0 has an element without sku", ["m1"])
        assert "note" not in (fields["/total"] or {})  # type: ignore[operator]  # it is an object


def test_parts_that_the_schema_names_by_reference_are_followed() -> None:
    line: JsonObject = {"type": "object", "properties": {"sku": {"type": "string"}, "count": {"type": "integer"}}}
    vendor: JsonObject = {
        "type": "object",
        "properties": {"name": {}, "city": {}, "lines": {"type": "array", "items": {"$ref": "#/$defs/a~1line%7E"}}},
    }
    schema: JsonObject = {
        "$ref": "#/$defs/invoice",
        "$defs": {
            "a/line~": line,
            "vendor": vendor,
            "invoice": {
                "type": "object",
                "properties": {
                    "maybe": {"anyOf": [{"$ref": "#/$defs/vendor"}, {"type": "null"}], "default": None},
                    "one": {"allOf": [{"$ref": "#/$defs/vendor"}], "description": "it"},
                    "either": {"anyOf": [{"$ref": "#/$defs/vendor"}, line]},
                },
            },
        },
    }
    answers: list[dict[str, JsonValue]] = [
        {"name": "A", "city": "Rome", "lines": [{"sku": "x", "count": 1}, {"sku": "y", "count": 2}]},
        {"name": "B", "city": "Oslo", "lines": [{"sku": "x", "count": 1}, {"sku": "y", "count": 3}]},
        {"name": "B", "city": "Rome", "lines": [{"sku": "y", "count": 3}, {"sku": "x", "count": 1}]},
    ]
    best = {"name": "B", "city": "Rome", "lines": answers[1]["lines"]}
    given = [{"maybe": answer, "one": answer, "either": answer} for answer in answers]
    keys = {"/maybe/lines": "sku", "/one/lines": "sku"}
    value, status, trace = merged(*given, schema=schema, array_keys=keys)
    assert (value, status) == ({"maybe": best, "one": best, "either": answers[0]}, "ok")
    assert "fallback" not in trace


def test_a_part_that_most_say_is_null_is_null() -> None:
    schema: JsonObject = {
        "properties": {"vendor": {"anyOf": [{"type": "object", "properties": {"name": {}}}, {"type": "null"}]}}
    }
    named = {"vendor": {"name": "x"}}
    nothing = {"vendor": None}
    assert merged(named, nothing, nothing, schema=schema)[0] == nothing
    assert merged(named, nothing, named, schema=schema)[0] == named
    assert merged(named, {}, {}, schema=schema)[0] == {}


@pytest.mark.parametrize(
    "part",
    [{"$ref": "#/$defs/self"}, {"$ref": "#/nowhere"}, {"$ref": "other#/$defs/self"}, {"allOf": [True]}, {"anyOf": {}}],
)
def test_references_that_lead_nowhere_end_in_a_leaf(part: JsonObject) -> None:
    root: JsonObject = {"properties": {"a": part}, "$defs": {"self": {"$ref": "#/$defs/self"}}}
    assert "properties" not in resolved(part, root)
    assert opening_of(part) == "{"


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


ELEMENTS = st.lists(
    st.fixed_dictionaries({"sku": st.sampled_from(["a", "b", 1])}, optional={"count": st.sampled_from([1, 2])})
    | st.sampled_from([{"count": 1}, "x"]),
    max_size=4,
)
VALUES = st.sampled_from([1, 2, "x", "y", None, True, [1], {"name": "n"}])
OBJECTS = st.fixed_dictionaries(
    {}, optional={"items": ELEMENTS | VALUES, **dict.fromkeys(["total", "vendor", "note", "more"], VALUES)}
)


@settings(max_examples=40)
@given(st.lists(OBJECTS | st.sampled_from(["nonsense", "[1]"]) | st.none(), min_size=1, max_size=5))
def test_a_vote_by_field_never_raises(answers: list[JsonValue]) -> None:
    vote = Vote(scope="field", quorum=1, array_keys={"/items": "sku"})
    result = vote.aggregate(members(*answers), AggregationContext(schema=INVOICE))
    assert (result.value is None) == (result.status != "ok")


@settings(max_examples=100)
@given(OBJECTS, st.integers(1, 4), st.sampled_from(["equal", "fuzzy"]))
def test_what_all_members_say_stays_as_it_is(answer: JsonValue, count: int, equivalence: str) -> None:
    value, status, _ = merged(*[answer] * count, equivalence=equivalence, array_keys={"/items": "sku"})
    assert (value, status) == (answer, "ok")
