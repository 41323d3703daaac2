"""A vote counts by weight, in the order of members where they tie, and never hides who abstained."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vlmhyperbench_pipeline.vote import Vote
from vlmhyperbench_sdk import discovery
from vlmhyperbench_sdk.aggregation import Aggregated, MemberAnswer
from vlmhyperbench_sdk.errors import InvalidInput, VlmHyperBenchError
from vlmhyperbench_sdk.protocols import Aggregation
from vlmhyperbench_sdk.testing.aggregations import check_aggregation
from vlmhyperbench_sdk.types import JsonValue


def members(*texts: str | None, weights: tuple[float, ...] = ()) -> list[MemberAnswer]:
    """Build members a, b, c …; None is one that failed."""
    return [
        MemberAnswer(
            name=chr(ord("a") + number),
            text=text,
            error=None if text is not None else "timeout",
            weight=weights[number] if weights else 1.0,
        )
        for number, text in enumerate(texts)
    ]


def test_the_answer_of_most_members_wins_as_its_first_member_wrote_it() -> None:
    result = Vote().aggregate(members("Lisbon", "Porto", "  lisbon. ", "LISBON"))
    assert result == Aggregated(
        value="Lisbon",
        status="ok",
        n_valid=4,
        key="lisbon",
        support=3.0,
        confidence=0.75,
        margin=0.5,
        dissent=("b",),
        trace={"keys": ["lisbon", "porto", "lisbon", "lisbon"]},
    )


def test_abstentions_and_failures_stay_in_the_total() -> None:
    result = Vote(quorum=1).aggregate(members("yes", None, " ", "no", "yes"))
    assert (result.value, result.n_valid, result.support) == ("yes", 3, 2.0)
    assert (result.confidence, result.margin, result.dissent) == (0.4, 0.2, ("d",))


def test_weights_count_exactly_to_a_millionth() -> None:
    result = Vote().aggregate(members("x", "x", "y", weights=(0.1, 0.2, 0.3)))
    assert (result.tie, result.value, result.margin) == (True, "x", 0.0)
    heavier = Vote().aggregate(members("x", "x", "y", weights=(0.1, 0.2, 0.300001)))
    assert (heavier.tie, heavier.value) == (False, "y")


@pytest.mark.parametrize(
    ("rule", "texts", "status"),
    [
        ("plurality", ("x", "x", "y", "z", "w"), "ok"),
        ("majority", ("x", "x", "y", "z", "w"), "rule_unmet"),
        ("majority", ("x", "x", "y", None), "rule_unmet"),
        ("majority", ("x", "x", "x", "y"), "ok"),
        ("unanimous", ("x", "x", "x"), "ok"),
        ("unanimous", ("x", "x", "y"), "rule_unmet"),
        ("unanimous", ("x", "x", None), "rule_unmet"),
    ],
)
def test_a_rule_asks_for_support(rule: str, texts: tuple[str | None, ...], status: str) -> None:
    result = Vote(rule=rule).aggregate(members(*texts))
    assert (result.status, result.value, result.key) == (status, "x" if status == "ok" else None, "x")


@pytest.mark.parametrize(("quorum", "status"), [(None, "no_quorum"), (1, "ok"), (2, "ok"), (3, "no_quorum")])
def test_a_quorum_is_half_of_the_members_rounded_up(quorum: int | None, status: str) -> None:
    assert Vote(quorum=quorum).aggregate(members("x", "x", None, None, None)).status == status
    assert Vote().aggregate(members("x", "x", None, None)).status == "ok"


@pytest.mark.parametrize(
    ("ties", "value"),
    [
        (("priority",), "x"),
        (("weight",), "y"),
        (("weight", "priority"), "y"),
        (("hash",), "x"),
        (("abstain",), None),
        ((), None),
    ],
)
def test_ties_are_decided_by_the_list_and_always_told(ties: tuple[str, ...], value: str | None) -> None:
    result = Vote(ties=ties).aggregate(members("x", "x", "y", weights=(1, 1, 2)))
    assert (result.value, result.tie) == (value, True)
    assert result.status == ("ok" if value else "tie")
    assert result.key == value


def test_a_tie_that_no_rule_decides_has_no_value() -> None:
    result = Vote(ties=["weight"]).aggregate(members("x", "y"))
    assert (result.value, result.status, result.key, result.support) == (None, "tie", None, 1.0)
    assert Vote(ties=["weight", "priority"]).aggregate(members("y", "x")).value == "y"


def test_nobody_dissents_by_an_answer_that_leads() -> None:
    result = Vote(ties=["weight"]).aggregate(members("x", "y", "y", "z", "z"))
    assert (result.status, result.support, result.dissent) == ("tie", 2.0, ("a", "d", "e"))


def test_similar_answers_are_one_in_chains() -> None:
    chain = members("the blue house on the hill", "x", "the blue house on the hills!", "the blue houses on the hills")
    result = Vote(equivalence="fuzzy").aggregate(chain)
    assert (result.value, result.support, result.dissent) == ("the blue house on the hill", 3.0, ("b",))
    bridge = members("abcdefghij", "abcdefzzzz", "abcdefghzz")
    assert Vote(equivalence="fuzzy").aggregate(bridge).support == 1.0
    linked = members("abcdefghijklmn", "abcdefghijklxy", "abcdefghijklmy")
    assert Vote(equivalence="fuzzy").aggregate(linked).support == 3.0
    for length, support in ((20, 2.0), (200, 1.0)):
        differing = members("x" * length, "x" * (length * 88 // 100) + "y" * (length * 12 // 100))
        assert Vote(equivalence="fuzzy").aggregate(differing).support == support
    assert Vote(equivalence="fuzzy").aggregate(chain).trace == {
        "keys": [*["the blue house on the hill", "x"], *["the blue house on the hill"] * 2]
    }
    numbers = members("1234567.50", "1234567.60", "1234567.60")
    assert Vote(equivalence="fuzzy").aggregate(numbers).value == "1234567.60"
    joining = members("abcdefghijklmnopqrst", "abcdefghijklmnzzzzzz", "abcdefghijklmnopqzzz", "q")
    assert Vote(equivalence="fuzzy").aggregate(joining).dissent == ("d",)


def test_a_ranking_strikes_the_weakest_answer_until_one_has_the_majority() -> None:
    ballots = members('["x", "y"]', "y\nx", "z\ny", '["x", "z"]', "z\ny", None)
    result = Vote(rule="ranked").aggregate(ballots)
    assert (result.value, result.status, result.n_valid) == ("x", "ok", 5)
    assert result.trace == {
        "keys": ["x", "y", "z", "x", "z", None],
        "rounds": [{"x": 2.0, "y": 1.0, "z": 2.0}, {"x": 3.0, "z": 2.0}],
    }
    assert not result.tie
    assert (result.confidence, result.margin, result.dissent) == (0.5, 1 / 6, ("c", "e"))


@pytest.mark.parametrize(
    ("ties", "value"),
    [(("priority",), "x"), (("weight", "priority"), "x"), (("hash",), "z"), (("abstain",), None), ((), None)],
)
def test_of_equally_weak_answers_the_list_of_ties_says_which_is_struck(
    ties: tuple[str, ...], value: str | None
) -> None:
    """Who is struck decides: the ballots of z go to x, those of y to z."""
    ballots = members("x", "x", "x", "y\nz", "y\nz", "z\nx", "z\nx")
    result = Vote(rule="ranked", ties=ties).aggregate(ballots)
    assert (result.value, result.key, result.tie) == (value, value, True)
    assert result.status == ("ok" if value else "tie")


def test_the_heaviest_member_keeps_its_answer_in_a_ranking() -> None:
    ballots = members("x", "y\nz", "y\nz", "z\nx", weights=(3, 1, 1, 2))
    assert Vote(rule="ranked", ties=["weight"]).aggregate(ballots).value == "z"
    undecided = Vote(rule="ranked", ties=["priority"]).aggregate(ballots)
    assert (undecided.value, undecided.support, undecided.dissent) == ("x", 5.0, ("b", "c"))


def test_answers_that_are_nobodys_best_are_struck_without_a_tie() -> None:
    result = Vote(rule="ranked").aggregate(members("x\na\nb", "x\nb", "y\na", "y", "z\nx"))
    assert (result.value, result.tie) == ("x", False)


def test_a_ranking_that_nobody_gives_or_too_few_give_has_no_value() -> None:
    vote = Vote(rule="ranked")
    assert vote.aggregate(members("", " ", "\n")).status == "no_valid"
    few = vote.aggregate(members("x", None, None))
    assert (few.status, few.value, few.key) == ("no_quorum", None, "x")
    tied = vote.aggregate(members("x", "y"))
    assert (tied.value, tied.tie, tied.dissent) == ("x", True, ("b",))
    assert vote.aggregate(members('[null, {}, "x"]')).value == "x"


def test_a_failed_member_fails_the_vote_where_it_must_not_fail() -> None:
    result = Vote(on_member_error="fail").aggregate(members("x", None))
    assert (result.status, result.value, result.n_valid) == ("member_failed", None, 1)
    assert result.trace == {"failed": {"b": "timeout"}, "keys": ["x", None]}
    nobody = Vote(on_member_error="fail").aggregate(members(None, None))
    assert nobody.trace == {"failed": {"a": "timeout", "b": "timeout"}}
    assert Vote().aggregate(members(None, None)).status == "no_valid"
    assert Vote().aggregate([]).status == "no_valid"
    assert Vote().aggregate(members(" ", "")).status == "no_valid"


@pytest.mark.parametrize(
    "params",
    [
        {"rule": "best"},
        {"extract": "words"},
        {"extract": "choice"},
        {"extract": "choice", "choices": ["a", "A."]},
        {"extract": "choice", "choices": ["a", " "]},
        {"extract": "regex"},
        {"extract": "regex", "pattern": "("},
        {"extract": "json_pointer"},
        {"extract": "json_pointer", "pointer": "total"},
        {"normalise": "lower"},
        {"locale": "xx"},
        {"date_order": "dym"},
        {"equivalence": "same"},
        {"quorum": 0},
        {"quorum": True},
        {"ties": ["luck"]},
        {"scope": "page"},
        {"scope": "field", "rule": "ranked"},
        {"scope": "field", "extract": "json_pointer", "pointer": "/total"},
        {"scope": "field", "choices": ["a", "b"]},
        {"scope": "field", "pattern": "x"},
        {"scope": "field", "pointer": "/total"},
        {"equivalence": "fuzzy", "normalise": "number"},
        {"equivalence": "fuzzy", "normalise": "date"},
        {"equivalence": "fuzzy", "normalise": "json"},
        {"equivalence": "fuzzy", "rule": "ranked"},
        {"on_member_error": "ignore"},
        {"rules": "majority"},
    ],
)
def test_a_param_that_cannot_be_is_refused(params: dict[str, JsonValue]) -> None:
    with pytest.raises(InvalidInput):
        discovery.construct("aggregations", "vote", params, called="vote")


def test_aggregations_are_found_by_name() -> None:
    assert discovery.names("aggregations") == ["concat", "synthesis", "template", "vote"]
    assert isinstance(discovery.construct("aggregations", "vote", {}, called="vote"), Aggregation)


@pytest.mark.parametrize(
    ("name", "params"),
    [("concat", {}), ("vote", {}), ("vote", {"scope": "field"}), ("template", {"template": "{{ members[0].text }}"})],
)
def test_an_aggregation_keeps_the_contract(name: str, params: dict[str, object]) -> None:
    check_aggregation(discovery.construct("aggregations", name, params, called=name))


@pytest.mark.parametrize(
    "fields", [{"text": "x", "error": "y"}, {}, {"text": "x", "weight": 0}, {"text": "x", "weight": float("inf")}]
)
def test_a_member_has_a_text_or_an_error_and_a_weight(fields: dict[str, object]) -> None:
    with pytest.raises(VlmHyperBenchError):
        MemberAnswer(**{"name": "m", **fields})  # type: ignore[arg-type]  # wrong on purpose


TEXTS = st.lists(st.sampled_from(["x", "y", "z", "", None]), min_size=1, max_size=7)
WEIGHTS = st.lists(st.sampled_from([0.1, 0.2, 0.3, 1.0, 2.0]), min_size=7, max_size=7)
TIES = st.lists(st.sampled_from(["weight", "priority", "hash", "abstain"]), max_size=3)


@given(TEXTS, WEIGHTS, TIES, st.randoms())
def test_order_decides_nothing_but_ties(
    texts: list[str | None], weights: list[float], ties: list[str], chance: object
) -> None:
    voting = members(*texts, weights=tuple(weights))
    shuffled = list(voting)
    chance.shuffle(shuffled)  # type: ignore[attr-defined]  # hypothesis gives a random.Random
    vote = Vote(ties=ties, quorum=1)
    first, second = vote.aggregate(voting), vote.aggregate(shuffled)
    assert (first.support, first.margin, first.tie, first.n_valid) == (
        second.support,
        second.margin,
        second.tie,
        second.n_valid,
    )
    if not first.tie or "priority" not in ties:
        assert (first.status, first.value) == (second.status, second.value)


@given(TEXTS, WEIGHTS, st.sampled_from(["plurality", "majority", "unanimous"]))
def test_a_vote_keeps_its_sums(texts: list[str | None], weights: list[float], rule: str) -> None:
    voting = members(*texts, weights=tuple(weights))
    result = Vote(rule=rule, quorum=1).aggregate(voting)
    assert result.n_valid == sum(bool(text) for text in texts)
    assert (result.value is not None) == (result.status == "ok")
    if result.confidence is not None and result.margin is not None:
        assert 0 <= result.margin <= result.confidence <= 1
        assert result.tie == (result.margin == 0)
    if result.status == "ok" and rule == "majority":
        assert result.confidence is not None
        assert result.confidence > 0.5
    assert set(result.dissent) <= {member.name for member in voting if member.text}


@given(TEXTS, WEIGHTS)
def test_an_equal_factor_of_all_weights_changes_nothing(texts: list[str | None], weights: list[float]) -> None:
    vote = Vote(ties=["weight", "hash"], quorum=1)
    single = vote.aggregate(members(*texts, weights=tuple(weights)))
    tenfold = vote.aggregate(members(*texts, weights=tuple(10 * weight for weight in weights)))
    assert dataclasses.replace(tenfold, support=None) == dataclasses.replace(single, support=None)


@given(TEXTS, WEIGHTS)
def test_a_member_that_abstains_moves_nothing_but_the_total(texts: list[str | None], weights: list[float]) -> None:
    vote = Vote(quorum=1)
    without = vote.aggregate(members(*texts, weights=tuple(weights)))
    silent = MemberAnswer(name="q", error="timeout")
    joined = vote.aggregate([*members(*texts, weights=tuple(weights)), silent])
    assert (joined.value, joined.support, joined.n_valid) == (without.value, without.support, without.n_valid)
    if without.confidence is not None and joined.confidence is not None:
        assert joined.confidence < without.confidence
