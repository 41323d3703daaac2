"""`vlmhyperbench load` as a test calls it."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from vlmhyperbench.cli.load import command, flags
from vlmhyperbench.cli.output_flags import TEXT, OutputFlags

JSON = OutputFlags(json=True, quiet=True)
_GROUPS = {
    "target": flags.TargetFlags,
    "workload": flags.WorkloadFlags,
    "schedule": flags.ScheduleFlags,
    "limits": flags.LimitFlags,
    "slo": flags.SloFlags,
    "series": flags.SeriesFlags,
    "client": flags.ClientFlags,
    "record": flags.RecordFlags,
}


def load(url: str, *, output: OutputFlags = TEXT, **given: Any) -> int:
    """Run `load` with flags by their names, whichever group they belong to."""
    groups = {
        name: kind(**{field.name: given.pop(field.name) for field in dataclasses.fields(kind) if field.name in given})
        for name, kind in _GROUPS.items()
    }
    assert not given
    return command.load(url, output=output, **groups)


def measured(capsys: pytest.CaptureFixture[str], url: str, **given: Any) -> dict[str, Any]:
    """Run `load --json` and return its data."""
    load(url, output=JSON, **{"model": "m", **given})
    data: dict[str, Any] = json.loads(capsys.readouterr().out)["data"]
    return data
