"""The folder that the load generator reads."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from vlmhyperbench.load.plan import PlannedRequest, join_tables, make_requests, write_bodies, write_plan
from vlmhyperbench_sdk.errors import InvalidInput
from vlmhyperbench_sdk.load import REQUEST_DTYPE, Endpoint, LoadLimits, LoadPlan, PhasePlan


def plan(count: int = 2) -> LoadPlan:
    return LoadPlan(
        version=1,
        phases=(PhasePlan(no=3, kind="offline", count=count, params={"in_flight": 4}),),
        endpoint=Endpoint(url="http://h/v1", headers={"Authorization": "key"}),
        limits=LoadLimits(),
        seed=1,
    )


def test_bodies_lie_one_after_the_other(tmp_path: Path) -> None:
    first, second = write_bodies(tmp_path / "new", [b"{}", b"[1]"])
    assert (tmp_path / "new" / "bodies.bin").read_bytes() == b"{}[1]"
    assert (first.body_offset, first.body_bytes, second.body_offset, second.body_bytes) == (0, 2, 2, 3)
    assert first.request_sha256 == "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"


def test_the_table_keeps_every_column(tmp_path: Path) -> None:
    request = PlannedRequest(
        ordinal=9, sample=8, body_offset=7, body_bytes=6, request_sha256="ab", repeat=5, stream=4, think_ns=3
    )
    (row,) = make_requests(2, [request]).tolist()
    assert row == (2, 9, 8, 5, 0, 0, 4, 7, 6, 3, -1, -1, b"ab")


def test_a_plan_is_written_with_its_counts(tmp_path: Path) -> None:
    table = make_requests(3, write_bodies(tmp_path, [b"{}", b"{}"]))
    write_plan(tmp_path, plan=plan(), requests=table)
    written = json.loads((tmp_path / "plan.json").read_text())
    assert written["counts"] == {"requests": 2}
    assert written["phases"][0] == {
        "no": 3, "kind": "offline", "count": 2, "params": {"in_flight": 4}, "slo": {},
    }  # fmt: skip
    assert np.array_equal(np.load(tmp_path / "requests.npy"), table)


def test_a_plan_whose_counts_disagree_is_refused(tmp_path: Path) -> None:
    table = make_requests(3, write_bodies(tmp_path, [b"{}", b"{}"]))
    with pytest.raises(InvalidInput, match="announces 5 requests and has 2"):
        write_plan(tmp_path, plan=plan(5), requests=table)
    with pytest.raises(InvalidInput, match="REQUEST_DTYPE"):
        write_plan(tmp_path, plan=plan(), requests=np.zeros(2, dtype=[("phase", "<i4")]))


def test_tables_of_phases_are_joined() -> None:
    assert join_tables([]).dtype == np.dtype(REQUEST_DTYPE)
    request = PlannedRequest(ordinal=0, sample=0, body_offset=0, body_bytes=0, request_sha256="")
    assert join_tables([make_requests(0, [request]), make_requests(1, [request])])["phase"].tolist() == [0, 1]
