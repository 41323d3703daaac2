"""The bytes of metadata: canonical, but a schema keeps its order."""

from __future__ import annotations

from vlmhyperbench.domain.digests import canonical_json, metadata_json, short_key
from vlmhyperbench_sdk.types import JsonValue


def test_metadata_is_canonical_but_for_its_schema() -> None:
    schema: JsonValue = {"type": "object", "properties": {"total": {}, "date": {}}}
    plain: dict[str, JsonValue] = {"b": {"d": 1, "c": 2}, "a": 0}
    assert metadata_json(plain) == canonical_json(plain) == b'{"a":0,"b":{"c":2,"d":1}}'
    written = metadata_json({"json_schema": schema, **plain})
    assert written == (b'{"a":0,"b":{"c":2,"d":1},"json_schema":{"type":"object","properties":{"total":{},"date":{}}}}')
    assert metadata_json({**plain, "json_schema": schema}) == written


def test_a_short_key_depends_on_values_and_not_on_the_order_of_keys() -> None:
    key = short_key({"a": 1, "b": [None, "ü"]})
    assert key == "36d6bb8146c597b3" == short_key({"b": [None, "ü"], "a": 1})
    assert key != short_key({"a": 1, "b": [None, "u"]})
