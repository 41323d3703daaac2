"""Reasoning is never an answer: what is read follows the last tag, and where one is still open there is nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.shared.scoring.reading import read
from vlmhyperbench.scoring.extractors import EXTRACTORS


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("<think>2 + 2</think>\n 4 ", "4"),
        ("<think>a</think>b</THINK>c", "c"),
        ("a</think>b", "b"),
        ("<think>5</think>6<think>7</think>8", "8"),
        ("6 <think>7</think>", ""),
        ("<think>5<think>6</think>7</think>8", "8"),
        ("<think>5<reasoning>6</reasoning>7</think>8", "8"),
        ("2 < 3", "2 < 3"),
        ("<think>and then", "<unfinished_reasoning>"),
        ("<think>5</think>6<think>7", "<unfinished_reasoning>"),
        ("Answer 6 <think>7 8 9", "<unfinished_reasoning>"),
        ("<think>5<think>6</think>7", "<unfinished_reasoning>"),
        ("<think>5</reasoning>7", "<unfinished_reasoning>"),
    ],
)
def test_the_answer_is_what_follows_the_last_reasoning(answer: str, expected: str) -> None:
    assert read("after_reasoning", answer) == expected


PARAMS: dict[str, dict[str, object]] = {"regex": {"pattern": "a+"}}
TAGS = st.sampled_from(["think", "thinking", "reasoning", "THINK"])


@given(st.sampled_from(sorted(set(EXTRACTORS) - {"text"})), st.text("1 ABanswer:{}\n"), TAGS, st.text("1 AB{}\n"))
def test_no_extractor_reads_reasoning_that_never_ends(name: str, before: str, tag: str, reasoning: str) -> None:
    answer = f"{before}<{tag}>{reasoning}"
    assert read(name, answer, **PARAMS.get(name, {})) == "<unfinished_reasoning>"


@given(st.lists(st.tuples(TAGS, st.text("1 AB{}<>/\n")), max_size=4), st.text("1 AB{}"))
def test_whatever_was_reasoned_before_the_answer_stays(blocks: list[tuple[str, str]], answer: str) -> None:
    reasoned = "".join(f"<{tag}>{text}</{tag}>" for tag, text in blocks)
    assert read("after_reasoning", reasoned + answer) == answer.strip()


def test_who_cannot_answer_announces_nothing() -> None:
    for denial in ("I cannot answer: A", "I can't answer: A", "I can\N{RIGHT SINGLE QUOTATION MARK}t answer: A"):
        assert read("final_answer", denial) == "<no_final_answer>"
    assert read("final_answer", "There is no answer: it is dark") == "<no_final_answer>"
    assert read("final_answer", "I am unable to answer: it is dark") == "<no_final_answer>"
