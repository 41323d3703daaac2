"""The folder that the load generator reads."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.support.wording import Wording
from vlmhyperbench.load.plan import blank_requests, write_bodies, write_plan
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


def test_bodies_are_written_one_after_the_other(tmp_path: Path) -> None:
    rows = write_bodies(tmp_path / "new", [b"{}", b"[1]"], phase=2)
    assert (tmp_path / "new" / "bodies.bin").read_bytes() == b"{}[1]"
    sha256 = b"44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
    assert rows[0].tolist() == (2, 0, 0, 0, 0, 0, -1, 0, 2, 0, -1, -1, sha256)
    assert rows[1].tolist()[:-1] == (2, 1, 1, 0, 0, 0, -1, 2, 3, 0, -1, -1)


def test_without_bodies_there_are_no_rows(tmp_path: Path) -> None:
    assert write_bodies(tmp_path, []).size == 0
    assert (tmp_path / "bodies.bin").read_bytes() == b""


def test_blank_requests_belong_to_no_stream_and_know_no_tokens() -> None:
    (row,) = blank_requests(1)
    assert (row["stream"], row["prompt_tokens"], row["output_tokens"]) == (-1, -1, -1)
    assert blank_requests(0).dtype == np.dtype(REQUEST_DTYPE)


def test_a_plan_is_written_with_its_counts(tmp_path: Path) -> None:
    table = write_bodies(tmp_path, [b"{}", b"{}"], phase=3)
    write_plan(tmp_path, plan=plan(), requests=table)
    written = json.loads((tmp_path / "plan.json").read_text())
    assert written["counts"] == {"requests": 2}
    assert written["phases"][0] == {
        "no": 3, "kind": "offline", "count": 2, "params": {"in_flight": 4}, "slo": {},
    }  # fmt: skip
    assert np.array_equal(np.load(tmp_path / "requests.npy"), table)


def test_a_plan_whose_counts_disagree_is_refused(tmp_path: Path, wording: Wording) -> None:
    table = write_bodies(tmp_path, [b"{}", b"{}"], phase=3)
    with pytest.raises(InvalidInput) as refused:
        write_plan(tmp_path, plan=plan(5), requests=table)
    wording(refused.value)
    with pytest.raises(InvalidInput, match="REQUEST_DTYPE"):
        write_plan(tmp_path, plan=plan(), requests=np.zeros(2, dtype=[("phase", "<i4")]))
