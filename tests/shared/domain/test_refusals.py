"""The facts of a refusal for want of memory: need, have and shortfall, and what would change it."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from vlmhyperbench.domain.fallbacks import GIB, LoadSettings, NoFit, Shortfall
from vlmhyperbench.domain.refusals import Knob, MemoryRefusal, engine_knobs, knobs_of, named_by
from vlmhyperbench.errors import DoesNotFit

ACCELERATOR = Shortfall(memory="accelerator", need=10 * GIB, have=8 * GIB)
MACHINE = Shortfall(memory="machine", need=GIB, have=3 * GIB)
NAMES = {"context": {"n_ctx"}, "slots": {"parallel", "n_parallel"}}
CONTEXT = (Knob(name="n_ctx", fixes=False),)
LOSSY = Knob(name="limits.allow_lossy", to="true", fixes=True)


def found(*, fits_lossy: bool) -> NoFit:
    return NoFit(settings=LoadSettings(context_tokens=256), steps=(), rows=(ACCELERATOR,), fits_lossy=fits_lossy)


def test_the_facts_are_a_row_of_each_memory_in_bytes_and_what_is_lacking_is_never_negative() -> None:
    facts = MemoryRefusal(model="m", rows=(ACCELERATOR, MACHINE), knobs=(LOSSY, *CONTEXT), has_run_out=True).facts
    assert facts == {
        "model": "m",
        "rows": [
            {
                "memory": "accelerator",
                "need_bytes": 10 * GIB,
                "have_bytes": 8 * GIB,
                "shortfall_bytes": 2 * GIB,
            },
            {"memory": "machine", "need_bytes": GIB, "have_bytes": 3 * GIB, "shortfall_bytes": 0},
        ],
        "knobs": [
            {"name": "limits.allow_lossy", "to": "true", "fixes": True},
            {"name": "n_ctx", "to": None, "fixes": False},
        ],
        "has_run_out": True,
    }


@pytest.mark.parametrize("has_run_out", [False, True])
def test_the_message_has_the_model_and_every_number_of_the_table(has_run_out: bool) -> None:
    message = MemoryRefusal(model="large", rows=(ACCELERATOR, MACHINE), has_run_out=has_run_out).message
    assert "large" in message
    for row, numbers in ((ACCELERATOR, ("10.00", "8.00", "2.00")), (MACHINE, ("1.00", "3.00", "0.00"))):
        table = message[message.index(row.memory) :]
        assert re.findall(r"[\d.]+(?= GiB)", table)[:3] == list(numbers)


def test_running_out_of_memory_is_told_from_an_estimate_that_is_too_large() -> None:
    refused = MemoryRefusal(model="m", rows=(ACCELERATOR,))
    assert replace(refused, has_run_out=True).message != refused.message
    assert replace(refused, has_run_out=True).facts == {**refused.facts, "has_run_out": True}


def test_the_cure_names_every_knob_and_first_what_surely_helps() -> None:
    def cure(*knobs: Knob) -> str:
        return MemoryRefusal(model="m", rows=(ACCELERATOR,), knobs=knobs).cure

    whole, small = cure(*CONTEXT, LOSSY), cure(*CONTEXT)
    assert 0 < whole.index("limits.allow_lossy: true") < whole.index("n_ctx")
    assert "n_ctx" in small
    assert whole.endswith(small)
    assert cure()
    assert "n_ctx" not in cure()


def test_every_parameter_of_the_engine_that_may_be_smaller_is_a_knob_that_may_not_suffice() -> None:
    assert [knob.name for knob in engine_knobs(NAMES)] == ["n_ctx", "n_parallel", "parallel"]
    assert not any(knob.fixes or knob.to for knob in engine_knobs(NAMES))
    assert engine_knobs({}) == ()


def test_giving_up_quality_is_a_knob_only_where_it_would_make_it_fit() -> None:
    assert knobs_of(found(fits_lossy=True), NAMES) == (LOSSY, *engine_knobs(NAMES))
    assert knobs_of(found(fits_lossy=False), NAMES) == engine_knobs(NAMES)


def test_a_command_names_the_knobs_by_its_own_flags() -> None:
    refusal = MemoryRefusal(model="m", rows=(ACCELERATOR,), knobs=(LOSSY, *CONTEXT))
    named = named_by(
        DoesNotFit(refusal.message, cure=refusal.cure, facts=refusal.facts), {"limits.allow_lossy": "--allow-lossy"}
    )
    assert named.message == refusal.message
    assert named.cure is not None
    assert named.cure.startswith("Give --allow-lossy. ")
    assert named.facts == {
        **refusal.facts,
        "knobs": [
            {"name": "--allow-lossy", "to": "true", "fixes": True},
            {"name": "n_ctx", "to": None, "fixes": False},
        ],
    }
