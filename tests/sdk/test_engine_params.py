"""An engine's parameters are read by a table: each is there, typed and in its range, or refused by name."""

from __future__ import annotations

import pytest

from tests.support.wording import Wording
from vlmhyperbench_sdk.errors import InvalidInput
from vlmhyperbench_sdk.params import Choice, EngineParams, Flag, Integer, Number, Pattern, read_engine_params
from vlmhyperbench_sdk.types import JsonValue

TABLE: EngineParams = {
    "slots": Integer(default=4, minimum=1, maximum=8),
    "share": Number(default=0.9, minimum=0.1, maximum=1.0),
    "dtype": Choice(("auto", "float16")),
    "eager": Flag(),
    "device": Pattern(default="cpu", pattern=r"cpu|cuda:\d", form="cpu or cuda:N"),
}


def test_what_is_not_given_or_null_is_the_default() -> None:
    defaults = {"slots": 4, "share": 0.9, "dtype": "auto", "eager": False, "device": "cpu"}
    assert read_engine_params("E", TABLE, {}) == defaults
    assert read_engine_params("E", TABLE, dict.fromkeys(TABLE)) == defaults


def test_what_is_given_is_taken_up_to_its_bounds() -> None:
    given: dict[str, JsonValue] = {"slots": 8, "share": 1, "dtype": "float16", "eager": True, "device": "cuda:1"}
    assert read_engine_params("E", TABLE, given) == given


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("slots", 9),
        ("slots", 0),
        ("slots", True),
        ("slots", 2.5),
        ("share", 1.01),
        ("share", float("nan")),
        ("share", "0.5"),
        ("dtype", "float8"),
        ("dtype", ["auto"]),
        ("eager", "false"),
        ("eager", 1),
        ("slot", 4),
        ("device", "cuda:"),
        ("device", 1),
    ],
)
def test_anything_else_is_refused_by_name(name: str, value: JsonValue, wording: Wording) -> None:
    with pytest.raises(InvalidInput) as refused:
        read_engine_params("E", TABLE, {name: value})
    assert name in refused.value.message
    wording(refused.value)
