"""A choice is what an answer settles on; who hedges, denies or only writes an article has chosen nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.shared.scoring.reading import read


@pytest.mark.parametrize(
    ("answer", "letter"),
    [
        ("B", "B"),
        ("B.", "B"),
        ("(B)", "B"),
        ("**C**", "C"),
        ("B) because A and C are too long", "B"),
        ("A because it is red", "A"),
        ("A. The cat", "A"),
        ("A.cat", "A"),
        ("B. A red car", "B"),
        ("C. Vitamin D", "C"),
        ("B\nbecause it is red", "B"),
        ("B, not A", "B"),
        ("B, the cat is not red", "B"),
        ("B - not red", "B"),
        ("Answer: A", "A"),
        ("Answer:\n\nB. A man on a horse", "B"),
        ("Answer: option C", "C"),
        ("Answer: B which is red", "B"),
        (r"Answer: $\boxed{B}$", "B"),
        ("#### D", "D"),
        ("The answer is (D).", "D"),
        ("The answer is D. B is wrong.", "D"),
        ("Answer: B\n(A) shows a dog, (B) shows a cat", "B"),
        ("The answer is probably B", "B"),
        ("The answer is C because A and B are wrong", "C"),
        ("The answer is C, not B", "C"),
        ("The answer is not B, it is C", "C"),
        ("The answer is neither A nor B but C", "C"),
        ("The answer is not B. It is C.", "C"),
        ("A is wrong. Answer: **C**", "C"),
        ("The answer is A. Wait: the answer is B.", "B"),
        ("Answer: B\nI hope this answer is right.", "B"),
        ("Answer: B\nThe answer is easy to see.", "B"),
        ("The correct option is (C).", "C"),
        ("B is the correct answer", "B"),
        ("A is correct.", "A"),
        ("It must be D, I think", "D"),
        ("I see 3.5 dogs.\n\nB", "B"),
        ("A and C are wrong. It must be B.", "B"),
    ],
)
def test_what_is_chosen_is_read(answer: str, letter: str) -> None:
    assert read("choice", answer) == letter


@pytest.mark.parametrize(
    "answer",
    [
        "The answer is A or B",
        "(A) or (B)",
        "A, B",
        "A/B",
        "A - B",
        "A B",
        "Answer: A, B and C",
        "Answer: B; C",
        "Answer: A) B)",
        "Answer:\nA\nB",
        "Answer: A\nor B",
        "The answer is A.\nActually, it's B.",
        "Answer: [A, C]",
        "Answer: A. dog, or B. cat",
        "Answer: B) A dog, or C) a cat",
        "The answer is A, but it could be B",
        "The answer is (A), or possibly B",
        "The answer is either A or B",
        "A. dog\nB. cat",
        "A: the dog; B: the cat",
        "A. dog B. cat\nThe answer is the dog",
        "Option A: a dog. Option B: a cat.",
        "A dog is shown, so B",
    ],
)
def test_who_names_several_letters_chooses_none(answer: str) -> None:
    assert read("choice", answer) == "<several_choices>"


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "none",
        "AB",
        "Answer: AB",
        "A dog is here",
        "Answer: A dog",
        "Answer: B is missing",
        "not A",
        "not B and nothing else",
        "It is not, not clear",
        "B is wrong",
        "B?",
        "The answer isn't B",
        "The answer is not B or C",
        "I cannot answer: A is missing",
        "I'm not sure, B",
        "The label says vitamin C",
        "The label says vitamin C. It is orange",
        "It is written in C++, with B-12",
    ],
)
def test_who_only_mentions_a_letter_chooses_none(answer: str) -> None:
    assert read("choice", answer) == "<no_choice>"


def test_the_letters_are_those_of_the_question() -> None:
    assert read("choice", "It must be D, I think", letters="ABCDEFGHI") == "D"
    assert read("choice", "I", letters="ABCDEFGHI") == "I"
    assert read("choice", "E", letters="ABCD") == "<no_choice>"


WAYS = [
    "{}",
    "{}.",
    "({})",
    "**{}**",
    "{}) because",
    "Answer: {}",
    "The answer is {}.",
    "The answer is ({}).",
    "\n{}\n",
]
HEDGES = ["{} or {}", "({}) or ({})", "{}, {}", "{}/{}", "{} and {}", "either {} or {}", "{} & {}", "{} or maybe {}"]
ANNOUNCED = ["{}", "Answer: {}", "The answer is {}", "**Final answer:** {}"]


@given(st.sampled_from("ABCD"), st.sampled_from(WAYS))
def test_one_letter_in_any_common_way_is_read(letter: str, way: str) -> None:
    assert read("choice", way.format(letter)) == letter


@given(
    st.lists(st.sampled_from("ABCD"), min_size=2, max_size=2, unique=True),
    st.sampled_from(HEDGES),
    st.sampled_from(ANNOUNCED),
)
def test_two_letters_in_any_common_way_are_none(letters: list[str], hedge: str, way: str) -> None:
    read_as = read("choice", way.format(hedge.format(*letters)))
    assert read_as in {"<several_choices>", "<no_choice>"}


@given(
    st.lists(st.sampled_from("ABCD"), min_size=2, max_size=2, unique=True),
    st.sampled_from(["not {}, it is {}", "not {} but {}", "not option {}; it is {}", "rather than {}, {}"]),
)
def test_a_denied_letter_is_not_chosen(letters: list[str], way: str) -> None:
    read_as = read("choice", f"The answer is {way.format(*letters)}")
    assert read_as in {letters[1], "<no_choice>", "<several_choices>"}


@pytest.mark.parametrize("piece", ["A ", "A. ", "A\n", "not ", "A+", "(A) or ", "Option A ", "x'", "1,", "$", "-"])
def test_a_hostile_row_of_letters_ends(piece: str) -> None:
    assert read("choice", piece * (200_000 // len(piece)) + "x") is not None  # what is quadratic would take an hour
