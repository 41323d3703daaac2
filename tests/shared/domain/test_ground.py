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


def test_two_machines_are_apart_and_a_machine_is_not_apart_from_itself() -> None:
    assert on("a").is_apart_from(on("b"))
    assert not on("a").is_apart_from(on("a"))


def test_declared_cores_without_overlap_are_apart_on_one_machine() -> None:
    assert on(cores="0-1").is_apart_from(on(cores="2-3"))
    assert not on(cores="0-2").is_apart_from(on(cores="2-3"))
    assert not on(cores="0-1").is_apart_from(on())


def test_grounds_with_a_common_gpu_are_never_apart() -> None:
    assert on(gpus="x", cores="0").is_apart_from(on(gpus="y", cores="1"))
    assert not on(gpus="xy", cores="0").is_apart_from(on(gpus="y", cores="1"))
    assert not on("a", gpus="x").is_apart_from(on("b", gpus="x"))


@given(a=GROUNDS, b=GROUNDS)
def test_being_apart_is_symmetric(a: Ground, b: Ground) -> None:
    assert a.is_apart_from(b) == b.is_apart_from(a)


@given(a=SENDINGS, b=SENDINGS)
def test_disturbing_is_symmetric_and_a_claim_does_not_disturb_itself(a: Sending, b: Sending) -> None:
    assert a.is_disturbed_by(b) == b.is_disturbed_by(a)
    assert not a.is_disturbed_by(a)


def test_a_claim_that_sends_after_the_end_of_another_does_not_disturb_it() -> None:
    first = Sending(claim_id="1", ground=on(), from_ns=0, until_ns=10)
    assert not first.is_disturbed_by(Sending(claim_id="2", ground=on(), from_ns=10, until_ns=20))
    assert first.is_disturbed_by(Sending(claim_id="2", ground=on(), from_ns=9, until_ns=20))
    assert not first.is_disturbed_by(Sending(claim_id="2", ground=on("b"), from_ns=0, until_ns=10))


def test_a_claim_that_still_sends_disturbs_later_ones() -> None:
    open_ended = Sending(claim_id="1", ground=on(), from_ns=5, until_ns=None)
    assert open_ended.is_disturbed_by(Sending(claim_id="2", ground=on(), from_ns=1_000, until_ns=None))
    assert not open_ended.is_disturbed_by(Sending(claim_id="2", ground=on(), from_ns=0, until_ns=5))


def test_cores_are_parsed_in_the_kernel_s_notation() -> None:
    assert parse_cores("0-2,8") == {0, 1, 2, 8}
    assert parse_cores("") == frozenset()


@pytest.mark.parametrize("text", ["a", "3-1", "1,", "-1", "1-2-3", "99999", "1 2"])
def test_a_text_that_is_not_a_list_of_cores_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="0-3,8"):
        parse_cores(text)
