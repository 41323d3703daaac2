"""A confusion matrix keeps the labels that matter and loses no answer."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from vlmhyperbench.analysis.confusion import OTHER, UNPARSED, confusion_of


def test_few_labels_are_all_kept_the_most_frequent_first() -> None:
    found = confusion_of({("cat", "cat"): 3, ("dog", "cat"): 2, ("eel", "eel"): 1, ("ant", "ant"): 1})
    assert found.labels == found.said == ("cat", "ant", "dog", "eel")
    assert found.pooled == 0
    assert found.counts[("dog", "cat")] == 2
    assert (found.total("dog"), found.total("cat")) == (2, 3)


def test_the_rest_is_pooled() -> None:
    found = confusion_of({("a", "a"): 5, ("b", "a"): 2, ("c", "d"): 1, ("d", "d"): 1, ("d", "a"): 1}, most=3)
    assert (found.labels, found.pooled) == (("a", "d", OTHER), 2)
    assert found.counts == {("a", "a"): 5, (OTHER, "a"): 2, (OTHER, "d"): 1, ("d", "d"): 1, ("d", "a"): 1}


def test_what_is_never_right_is_unparsed_and_does_not_push_a_label_out() -> None:
    found = confusion_of({("a", "a"): 1, ("b", "what"): 9, ("b", "b"): 1, ("a", UNPARSED): 2}, most=2)
    assert found.labels == ("b", "a")
    assert found.said == ("b", "a", UNPARSED)
    assert found.counts[("b", UNPARSED)] == 9
    assert found.total("a") == 3


def test_a_label_that_is_called_other_is_part_of_the_rest() -> None:
    found = confusion_of({(OTHER, OTHER): 9, ("a", "a"): 2, ("b", "b"): 1, ("c", "c"): 1}, most=3)
    assert found.labels == ("a", "b", OTHER)
    assert found.counts[(OTHER, OTHER)] == 10


def test_nothing_is_no_confusion() -> None:
    assert confusion_of({}).labels == ()


@given(
    st.dictionaries(st.tuples(st.sampled_from("abcdefg"), st.sampled_from("abcdefgh")), st.integers(1, 9)),
    st.integers(2, 9),
)
def test_no_answer_is_lost_and_no_label_is_too_many(counts: dict[tuple[str, str], int], most: int) -> None:
    found = confusion_of(counts, most=most)
    assert sum(found.counts.values()) == sum(counts.values())
    assert sum(found.total(label) for label in found.labels) == sum(counts.values())
    assert {right for right, _ in found.counts} == set(found.labels)
    assert {said for _, said in found.counts} <= set(found.said)
    assert len(found.labels) <= most
    assert len(set(found.labels)) == len(found.labels)
