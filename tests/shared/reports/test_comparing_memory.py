"""How the comparison writes memory."""

from __future__ import annotations

from dataclasses import replace

from tests.shared.reports.test_comparing import GOOD, run, samples
from vlmhyperbench.reports.comparing import compare, tables


def test_memory_is_written_in_mib_and_what_did_not_change_has_no_minus() -> None:
    before, after = samples(GOOD), samples(run("alike", ["yes"] * 6))
    most, less = ({"peak_memory_bytes": peak, "peak_memory_of": "engine"} for peak in (2**20 * 60, 2**20 * 60 - 1000))
    compared = compare(
        replace(before, side=replace(before.side, headline=most)),
        replace(after, side=replace(after.side, headline=less)),
    )
    speeds = next(one for one in tables(compared) if one.name == "speeds")
    assert speeds.rows[-1] == ("peak memory, MiB", "60.0", "60.0", "+0%")
