"""Ground: which inferences on one machine disturb each other's times."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vlmhyperbench.domain.ground import Ground, Sending, parse_cores

CORES = st.frozensets(st.integers(0, 3))
GROUNDS = st.builds(Ground, machine=st.sampled_from("ab"), gpus=st.frozensets(st.sampled_from("xy")), cores=CORES)
SENDINGS = st.builds(
    Sending,
    claim_id=st.sampled_from("123"),
    ground=GROUNDS,
    from_ns=st.integers(0, 9),
    until_ns=st.none() | st.integers(10, 20),
)


def on(machine: str = "a", *, gpus: str = "", cores: str = "") -> Ground:
    return Ground(machine=machine, gpus=frozenset(gpus), cores=parse_cores(cores))


def test_two_machines_are_apart_and_one_machine_is_not() -> None:
    assert on("a").is_apart_from(on("b"))
    assert not on("a").is_apart_from(on("a"))


def test_one_machine_is_apart_where_both_declared_cores_that_they_do_not_share() -> None:
    assert on(cores="0-1").is_apart_from(on(cores="2-3"))
    assert not on(cores="0-2").is_apart_from(on(cores="2-3"))
    assert not on(cores="0-1").is_apart_from(on())


def test_who_shares_a_gpu_is_never_apart() -> None:
    assert on(gpus="x", cores="0").is_apart_from(on(gpus="y", cores="1"))
    assert not on(gpus="xy", cores="0").is_apart_from(on(gpus="y", cores="1"))
    assert not on("a", gpus="x").is_apart_from(on("b", gpus="x"))


@given(a=GROUNDS, b=GROUNDS)
def test_to_be_apart_is_mutual(a: Ground, b: Ground) -> None:
    assert a.is_apart_from(b) == b.is_apart_from(a)


@given(a=SENDINGS, b=SENDINGS)
def test_to_disturb_is_mutual_and_nobody_disturbs_itself(a: Sending, b: Sending) -> None:
    assert a.is_disturbed_by(b) == b.is_disturbed_by(a)
    assert not a.is_disturbed_by(a)


def test_who_sends_after_the_other_has_ended_does_not_disturb_it() -> None:
    first = Sending(claim_id="1", ground=on(), from_ns=0, until_ns=10)
    assert not first.is_disturbed_by(Sending(claim_id="2", ground=on(), from_ns=10, until_ns=20))
    assert first.is_disturbed_by(Sending(claim_id="2", ground=on(), from_ns=9, until_ns=20))
    assert not first.is_disturbed_by(Sending(claim_id="2", ground=on("b"), from_ns=0, until_ns=10))


def test_what_still_goes_on_disturbs_whoever_comes_later() -> None:
    open_ended = Sending(claim_id="1", ground=on(), from_ns=5, until_ns=None)
    assert open_ended.is_disturbed_by(Sending(claim_id="2", ground=on(), from_ns=1_000, until_ns=None))
    assert not open_ended.is_disturbed_by(Sending(claim_id="2", ground=on(), from_ns=0, until_ns=5))


def test_cores_are_read_as_the_kernel_lists_them() -> None:
    assert parse_cores("0-2,8") == {0, 1, 2, 8}
    assert parse_cores("") == frozenset()


@pytest.mark.parametrize("text", ["a", "3-1", "1,", "-1", "1-2-3", "99999", "1 2"])
def test_a_text_that_is_not_a_list_of_cores_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="0-3,8"):
        parse_cores(text)
