"""Kinds of mistakes: the first that fits."""

from __future__ import annotations

import pytest

from vlmhyperbench.analysis.mistakes import Mistake, kind_of_mistake, similarity


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        ("  \n", Mistake.NOTHING),
        ("12.03.2011", Mistake.NEIGHBOUR),
        ("it is RIGA, I think", Mistake.WORDY),
        ("Rigabcd", Mistake.WORDY),
        ("rig", Mistake.PARTIAL),
        ("riha", Mistake.NEAR),
        ("oslo", Mistake.DIFFERENT),
    ],
)
def test_a_wrong_answer_gets_the_first_kind_that_fits(answer: str, kind: Mistake) -> None:
    assert kind_of_mistake(answer, ["Riga"], neighbours={"12.03.2011"}) is kind


def test_an_answer_that_ended_at_the_limit_is_cut_off_with_any_text() -> None:
    assert kind_of_mistake("Rig", ["Riga"], finish_reason="length") is Mistake.CUT_OFF


def test_an_answer_that_its_own_reference_accepts_is_no_neighbour() -> None:
    assert kind_of_mistake("riga", ["Riga"], neighbours={"riga"}) is Mistake.NEAR


def test_without_a_reference_an_answer_is_something_else() -> None:
    assert kind_of_mistake("Riga", ["", " "]) is Mistake.DIFFERENT


def test_similarity_looks_at_the_beginning_of_long_texts_only() -> None:
    assert similarity("a" * 400 + "b" * 9000, "a" * 400 + "c" * 9000) == 1.0
