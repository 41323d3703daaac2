"""What is read follows the last reasoning; of what follows, the last announcement of an answer, and not the chatter."""

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


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("Answer: Paris\n\nLet me know if this answer is helpful!", "Paris"),
        ("Answer: Paris. I am confident that my answer is correct.", "Paris. I am confident that my answer is correct"),
        ("#### 42\nI hope this answer is right.", "42"),
        ("Final answer: 42\nExplanation: the answer is obtained by adding 40 and 2.", "42"),
        ("The answer is 41.\nAnswer: 42", "42"),
        ("The answer is: 42\nThe answer is easy to see.", "42"),
        ("**Final Answer:**\n\n42\n\nThe answer is easy to see.", "42"),
    ],
)
def test_what_is_said_behind_an_answer_is_not_read_in_its_place(answer: str, expected: str) -> None:
    assert read("final_answer", answer) == expected


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("my answer is 42", "42"),
        ("The answer is 42.", "42"),
        ("So the answer is 42", "42"),
        ("Answer is 42", "42"),
        ("I think that the answer is **42**.", "42"),
        ("The answer is right.", "right"),
        ("It is B. No, the answer is A. Wait:\nthe answer is B.", "B"),
        ("The answer is 42.\nI hope this answer is right.", "42"),
        ("The answer is 42.\nLet me know whether the answer is clear.", "42"),
        ("The answer is 42.\nI hope that the final answer is helpful.", "42"),
        ("The answer is 42.\nMy answer is correct.", "42"),
        ("The answer is 42.\nI am sure my answer is absolutely right.", "42"),
    ],
)
def test_without_a_mark_the_last_words_that_announce_one_count(answer: str, expected: str) -> None:
    assert read("final_answer", answer) == expected


@pytest.mark.parametrize("chatter", ["I hope this answer is right.", "I think that answer is 5.", "Your answer is 5."])
def test_what_is_said_about_an_answer_announces_none(chatter: str) -> None:
    assert read("final_answer", chatter) == "<no_final_answer>"


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("**Answer:** 42", "42"),
        ("**Final answer**: 42", "42"),
        ("The final answer is: **42**", "42"),
        ("Answer: The answer is Paris.", "Paris"),
        ("Answer: the final answer is: 42", "42"),
        ("Final Answer: The final answer is $42$.", "$42$"),
        ("Answer: Let's think. 40 + 2 = 42. So the answer is 42.", "42"),
        ("Answer: 42, so my answer is correct.", "42, so my answer is correct"),
        ("**Answer:**\n\nOf 40 and 2.\n\nTherefore, **the answer is 42.**", "42"),
        ("#### Step 1\n40 and 2\n#### Step 2\nIt is 40 + 2. The answer is 42.", "42"),
        ("#### 41\n#### 42", "42"),
        ("Answer: Let me think step by step.\nFirst 1+1=2.\nSo the answer is 2.", "2"),
        ("Question: What is it?\nAnswer: Let's think.\n\nThe final answer is 9.", "9"),
        ("Answer: Based on the chart, the answer is 42.", "42"),
        ("Answer: Let's see. 40+2=42. The answer is 42.", "42"),
        ("**Answer:** \nLooking at the picture, there are 4.\n\nThe answer is 4.", "4"),
        ("#### Final Answer\n\nThe final answer is 42.", "42"),
        ("### Solution\n3+4\n\n#### Conclusion\nThe answer is **7**.", "7"),
        ("To answer: count the bars. There are 3. The answer is 3", "3"),
    ],
)
def test_the_last_announcement_counts_wherever_the_others_stand(answer: str, expected: str) -> None:
    assert read("final_answer", answer) == expected
