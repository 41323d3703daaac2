"""The axes of a sweep are the numbers in which specs differ."""

from __future__ import annotations

from vlmhyperbench.domain.varying import MAX_AXES, numeric_axes


def test_numbers_that_differ_are_axes_and_all_else_is_not() -> None:
    specs = [
        {"a": {"n": 4, "same": 1, "flag": True}, "text": "x", "list": [1], "only": 3},
        {"a": {"n": 1, "same": 1, "flag": False}, "text": "y", "list": [2], "other": 4},
        {"a": {"n": 4.5, "same": 1, "flag": None}, "text": "z", "list": [3]},
    ]
    assert numeric_axes(specs) == {"a.n": [1.0, 4.0, 4.5]}


def test_there_is_no_axis_without_several_specs_and_never_too_many() -> None:
    assert numeric_axes([]) == {}
    assert numeric_axes([{"n": 1}]) == {}
    assert len(numeric_axes([{f"k{no}": value for no in range(MAX_AXES + 1)} for value in (1, 2)])) == MAX_AXES
