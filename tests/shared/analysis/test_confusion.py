"""A confusion matrix shows the most frequent labels and counts every answer."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from vlmhyperbench.analysis.confusion import OTHER, UNPARSED, confusion_of


def test_few_labels_are_all_shown_the_most_frequent_first() -> None:
    confusion = confusion_of({("cat", "cat"): 3, ("dog", "cat"): 2, ("eel", "eel"): 1, ("ant", "ant"): 1})
    assert confusion.labels == confusion.predicted == ("cat", "ant", "dog", "eel")
    assert confusion.pooled == 0
    assert confusion.counts[("dog", "cat")] == 2
    assert (confusion.total("dog"), confusion.total("cat")) == (2, 3)


def test_rarer_labels_are_pooled() -> None:
    confusion = confusion_of({("a", "a"): 5, ("b", "a"): 2, ("c", "d"): 1, ("d", "d"): 1, ("d", "a"): 1}, max_labels=3)
    assert (confusion.labels, confusion.pooled) == (("a", "d", OTHER), 2)
    assert confusion.counts == {("a", "a"): 5, (OTHER, "a"): 2, (OTHER, "d"): 1, ("d", "d"): 1, ("d", "a"): 1}


def test_a_label_that_is_never_right_is_unparsed_and_displaces_no_other() -> None:
    confusion = confusion_of({("a", "a"): 1, ("b", "what"): 9, ("b", "b"): 1, ("a", UNPARSED): 2}, max_labels=2)
    assert confusion.labels == ("b", "a")
    assert confusion.predicted == ("b", "a", UNPARSED)
    assert confusion.counts[("b", UNPARSED)] == 9
    assert confusion.total("a") == 3


def test_a_label_named_other_is_pooled_with_the_rarer_ones() -> None:
    confusion = confusion_of({(OTHER, OTHER): 9, ("a", "a"): 2, ("b", "b"): 1, ("c", "c"): 1}, max_labels=3)
    assert confusion.labels == ("a", "b", OTHER)
    assert confusion.counts[(OTHER, OTHER)] == 10


def test_without_answers_there_are_no_labels() -> None:
    assert confusion_of({}).labels == ()


@given(
    st.dictionaries(st.tuples(st.sampled_from("abcdefg"), st.sampled_from("abcdefgh")), st.integers(1, 9)),
    st.integers(2, 9),
)
def test_no_answer_is_lost_and_no_label_is_too_many(counts: dict[tuple[str, str], int], limit: int) -> None:
    confusion = confusion_of(counts, max_labels=limit)
    assert sum(confusion.counts.values()) == sum(counts.values())
    assert sum(confusion.total(label) for label in confusion.labels) == sum(counts.values())
    assert {right for right, _ in confusion.counts} == set(confusion.labels)
    assert {predicted for _, predicted in confusion.counts} <= set(confusion.predicted)
    assert len(confusion.labels) <= limit
    assert len(set(confusion.labels)) == len(confusion.labels)
