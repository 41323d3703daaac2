"""How the comparison writes memory."""

from __future__ import annotations

from dataclasses import replace

from tests.shared.reports.test_comparing import GOOD, run, samples
from vlmhyperbench.reports.comparing import compare, tables


def test_memory_is_written_in_mib_and_what_did_not_change_has_no_minus() -> None:
    before, after = samples(GOOD), samples(run("alike", ["yes"] * 6))
    meta = {"headline": {"peak_memory_bytes": 2**20 * 60, "memory_of": "engine"}}
    less = {"headline": {"peak_memory_bytes": 2**20 * 60 - 1000, "memory_of": "engine"}}
    compared = compare(replace(before, meta={**before.meta, **meta}), replace(after, meta={**after.meta, **less}))
    speeds = next(one for one in tables(compared) if one.name == "speeds")
    assert speeds.rows[-1] == ("peak memory, MiB", "60.0", "60.0", "+0%")
