"""The table that `show` and `models load` print of a model that did not fit."""

from __future__ import annotations

import pytest

from vlmhyperbench.cli.model_loading import _print
from vlmhyperbench.cli.output_flags import TEXT
from vlmhyperbench.cli.shortages import show_shortage
from vlmhyperbench.wire.models import ModelStatus
from vlmhyperbench.wire.shortages import MemoryKnob, MemoryShortage, ShortMemory

GIB = 2**30
SHORTAGE = MemoryShortage(
    model="reader",
    rows=[
        ShortMemory(memory="accelerator", need_bytes=5 * GIB, have_bytes=3 * GIB, shortfall_bytes=2 * GIB),
        ShortMemory(memory="machine", need_bytes=GIB // 2, have_bytes=9 * GIB, shortfall_bytes=0),
    ],
    knobs=[
        MemoryKnob(name="limits.allow_lossy", to="true", fixes=True),
        MemoryKnob(name="n_ctx", to=None, fixes=False),
    ],
    has_run_out=False,
)


def lines(capsys: pytest.CaptureFixture[str]) -> list[list[str]]:
    return [line.split() for line in capsys.readouterr().out.splitlines() if line.strip()]


def test_a_refusal_is_a_table_of_need_have_and_shortfall_with_the_knobs_below(
    capsys: pytest.CaptureFixture[str],
) -> None:
    show_shortage(SHORTAGE)
    shown = lines(capsys)
    assert ["accelerator", "5.00", "GiB", "3.00", "GiB", "2.00", "GiB"] in shown
    assert ["machine", "512.0", "MiB", "9.00", "GiB", "0.0", "MiB"] in shown
    fixes, others = shown[-2:]
    assert fixes[-2:] == ["limits.allow_lossy:", "true"]
    assert others[-1] == "n_ctx"


def test_a_load_that_failed_for_memory_shows_the_table_too(capsys: pytest.CaptureFixture[str]) -> None:
    status = ModelStatus(name="reader", status="error", reason="It does not fit.", shortage=SHORTAGE)
    assert _print(status, TEXT, 3) == 3
    assert ["accelerator", "5.00", "GiB", "3.00", "GiB", "2.00", "GiB"] in lines(capsys)
