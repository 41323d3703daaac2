"""The samples of a run in lists, and everything about one of them."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from tests.api.conftest import Served, serving
from tests.api.sample_runs import IMAGE, answer_more, answered_run
from vlmhyperbench.settings import Settings

pytestmark = pytest.mark.anyio

MARKUP = "<script>alert(1)</script> \u05d0\u05d1 \U0001f600 " + "x" * 1_000_000


@pytest.fixture
async def run_id(api: Served, tmp_path: Path) -> UUID:
    """A run of six samples: 0 and 3 are right, 1 and 2 wrong, 4 has an answer of a megabyte, 5 failed."""
    answers = ["zero", "one", "two", "three", MARKUP, None]
    return await answered_run(api, tmp_path, answers, right=[True, False, False, True, True, False])


async def _ids(api: Served, run_id: UUID, **params: Any) -> list[str]:
    response = await api.http.get(f"/runs/{run_id}/samples", params=params)
    assert response.status_code == 200, response.text
    return [row["id"] for row in response.json()["items"]]


async def test_samples_are_listed_in_small_rows_with_and_without_filters(api: Served, run_id: UUID) -> None:
    plain = (await api.http.get(f"/runs/{run_id}/samples")).json()
    assert [row["id"] for row in plain["items"]] == [f"1.{number}" for number in range(6)]
    filtered = (await api.http.get(f"/runs/{run_id}/samples", params={"where": "id=*"})).json()
    assert filtered["items"] == plain["items"]
    assert (filtered["matching"], filtered["total"], plain["total"]) == (6, 6, 6)
    first = plain["items"][0]
    assert (first["value"], first["is_wrong"], first["outcome"], first["group"]) == (
        1.0, False, "answered", {"doc_class": "receipt"},
    )  # fmt: skip
    assert (first["image"], first["images"], first["latency_ms"]) == (IMAGE.sha256, 1, 20.0)
    assert all(len(json.dumps(row)) <= 1024 for row in plain["items"])


@pytest.mark.parametrize("path", ["plain", "filtered"])
async def test_pages_of_samples_hold_each_once(api: Served, run_id: UUID, path: str) -> None:
    params: dict[str, Any] = {"limit": 4, **({"where": "status=ok,error"} if path == "filtered" else {})}
    first = (await api.http.get(f"/runs/{run_id}/samples", params=params)).json()
    second = (await api.http.get(f"/runs/{run_id}/samples", params={**params, "cursor": first["next"]})).json()
    rows = [*first["items"], *second["items"]]
    assert ([row["id"] for row in rows], second["next"]) == ([f"1.{number}" for number in range(6)], None)


@pytest.mark.parametrize(
    ("order", "begins", "goes_on"),
    [
        ("text", ["1.4", "1.1", "1.3"], ["1.2", "1.7", "1.8", "1.0"]),
        ("-text", ["1.0", "1.2", "1.3"], ["1.1", "1.6", "1.4"]),
        (None, ["1.0", "1.1", "1.2"], ["1.3", "1.4", "1.6", "1.7", "1.8"]),
    ],
)
async def test_samples_that_come_between_two_pages_double_none(
    api: Served, tmp_path: Path, order: str | None, begins: list[str], goes_on: list[str]
) -> None:
    answers = ["zero", "one", "two", "three", MARKUP, None]
    run_id = await answered_run(api, tmp_path, answers, right=[True] * 6, later=3)
    params = {"where": "outcome=answered", **({"order": order} if order else {})}
    first = (await api.http.get(f"/runs/{run_id}/samples", params={**params, "limit": 3})).json()
    await answer_more(api, tmp_path, run_id, ["able", "yes", "zebra"], first=6)
    second = (await api.http.get(f"/runs/{run_id}/samples", params={**params, "cursor": first["next"]})).json()
    assert [[row["id"] for row in page["items"]] for page in (first, second)] == [begins, goes_on]
    assert (first["matching"], second["matching"], second["next"]) == (5, 8, None)


@pytest.mark.parametrize("order", ["value", "-value", "is_wrong", "-is_wrong", "key", "error_code", "-latency_ms"])
async def test_pages_in_any_order_are_the_list_cut_in_parts(api: Served, run_id: UUID, order: str) -> None:
    whole = await _ids(api, run_id, order=order)
    seen, cursor = list[str](), ""
    while len(seen) < len(whole):
        params = {"order": order, "limit": 1, "cursor": cursor}
        page = (await api.http.get(f"/runs/{run_id}/samples", params=params)).json()
        seen += [row["id"] for row in page["items"]]
        cursor = page["next"] or ""
    assert (seen, cursor) == (whole, "")


async def test_a_cursor_of_another_order_is_refused(api: Served, run_id: UUID) -> None:
    place = (await api.http.get(f"/runs/{run_id}/samples", params={"order": "key", "limit": 1})).json()["next"]
    forged = json.loads(base64.urlsafe_b64decode(place)) | {"order": "latency_ms"}
    wrong = base64.urlsafe_b64encode(json.dumps(forged).encode()).decode()
    for order, cursor in (("value", place), (None, place), ("latency_ms", wrong)):
        params = {"cursor": cursor, "where": "id=*", **({"order": order} if order else {})}
        assert (await api.http.get(f"/runs/{run_id}/samples", params=params)).status_code == 422


@pytest.mark.parametrize("first_page_is_of", ["database", "table"])
async def test_a_table_that_comes_or_goes_between_two_pages_loses_no_sample(
    api: Served, settings: Settings, run_id: UUID, first_page_is_of: str
) -> None:
    async with serving(settings, api.database) as other:
        first, second = (api, api) if first_page_is_of == "database" else (api, other)
        if first_page_is_of == "table":
            await _ids(api, run_id, where="id=*")
        begun = (await first.http.get(f"/runs/{run_id}/samples", params={"limit": 4})).json()
        if first_page_is_of == "database":
            assert begun["columns"] == []
            await api.http.get(f"/runs/{run_id}/sample-groups")
        params = {"limit": 4, "cursor": begun["next"]}
        ended = (await second.http.get(f"/runs/{run_id}/samples", params=params)).json()
    rows = [*begun["items"], *ended["items"]]
    assert ([row["id"] for row in rows], ended["next"]) == ([f"1.{number}" for number in range(6)], None)
    assert bool(ended["columns"]) == (first_page_is_of == "database")


async def test_samples_are_filtered_searched_and_ordered(api: Served, run_id: UUID) -> None:
    assert await _ids(api, run_id, where=["is_wrong=true"]) == ["1.1", "1.2"]
    assert await _ids(api, run_id, where=["outcome!=answered"]) == ["1.5"]
    assert await _ids(api, run_id, where=["group.doc_class=invoice", "value<1"]) == ["1.1"]
    assert await _ids(api, run_id, where=["metrics.exact_match!=*"]) == ["1.5"]
    assert await _ids(api, run_id, q="THREE") == ["1.3"]
    assert await _ids(api, run_id, q="question 4 <script>") == ["1.4"]
    assert (await _ids(api, run_id, order="value"))[:2] == ["1.1", "1.2"]
    assert (await _ids(api, run_id, order="-value"))[-1] == "1.5"
    for wrong in ("nothing=1", "key<1", "value<x"):
        assert (await api.http.get(f"/runs/{run_id}/samples", params={"where": wrong})).status_code == 422
    groups = (await api.http.get(f"/runs/{run_id}/sample-groups")).json()
    assert {group["column"]: group["values"] for group in groups}["group.doc_class"] == dict.fromkeys(
        ("receipt", "invoice", "passport"), 2
    )


async def test_flips_are_listed_against_a_baseline(api: Served, run_id: UUID, tmp_path: Path) -> None:
    answers = ["zero", "one", "two", "three", "four", "five"]
    other = await answered_run(api, tmp_path, answers, right=[False, True, False, True, True, True])
    assert await _ids(api, other, against=run_id, where="flip=broke") == ["1.0"]
    assert await _ids(api, other, against=run_id, where="flip=broke,mended") == ["1.0", "1.1"]
    assert await _ids(api, run_id, against=other, where="flip=mended") == ["1.0"]
    stranger = await answered_run(api, tmp_path, answers, right=[True] * 6, project="other")
    response = await api.http.get(f"/runs/{other}/samples", params={"against": str(stranger)})
    assert response.status_code == 404


async def test_a_sample_has_its_prompt_answer_traces_timing_and_neighbours(api: Served, run_id: UUID) -> None:
    response = await api.http.get(f"/runs/{run_id}/samples/1.1", params={"where": "is_wrong=true"})
    sample = response.json()
    assert sample["result"]["text"] == "one"
    assert sample["metadata"] == {"doc_class": "invoice", "boxes": [[0, 0, 1, 1]]}
    assert sample["parsed"] == [{"extractor": "text@1", "text": "one", "reason": None}]
    (trace,) = sample["traces"]
    assert (trace["metric"], trace["value"], trace["low"], trace["high"]) == ("exact_match", 0.0, 0.0, 1.0)
    assert trace["formula"]
    assert trace["compared"] == {"answer": "one", "references": ["reference 1"], "is_cut": False}
    assert (sample["timing"]["latency_ms"], sample["timing"]["ttft_ms"], sample["tries"]) == (20.0, 10.0, 1)
    assert sample["measured_by"] == str(run_id)
    assert sample["neighbours"] == {
        "previous": None, "next": "1.2", "next_error": None, "next_wrong": "1.2", "next_flip": None,
    }  # fmt: skip
    whole = (await api.http.get(f"/runs/{run_id}/samples/1.3")).json()
    assert (whole["neighbours"]["previous"], whole["neighbours"]["next_error"]) == ("1.2", "1.5")


async def test_an_answer_of_a_megabyte_with_markup_is_whole_in_its_sample(api: Served, run_id: UUID) -> None:
    sample = (await api.http.get(f"/runs/{run_id}/samples/1.4")).json()
    assert sample["result"]["text"] == MARKUP
    compared = sample["traces"][0]["compared"]
    assert (len(compared["answer"]), compared["is_cut"]) == (20_000, True)
    (row,) = (await api.http.get(f"/runs/{run_id}/samples", params={"q": "alert"})).json()["items"]
    assert row["text"].startswith("<script>")
    assert len(row["text"]) <= 140


async def test_a_sample_says_how_many_events_it_had_though_it_sends_fewer(api: Served, tmp_path: Path) -> None:
    run_id = await answered_run(api, tmp_path, ["a"], right=[True], events=2_500)
    timing = (await api.http.get(f"/runs/{run_id}/samples/1.0")).json()["timing"]
    assert (timing["events"], len(timing["events_ms"]), len(timing["event_tokens"])) == (2_500, 2_000, 2_000)


@pytest.mark.parametrize("sample_id", ["1.6", "2.0", "x", "1", "1.-1"])
async def test_an_unknown_sample_is_not_found(api: Served, run_id: UUID, sample_id: str) -> None:
    assert (await api.http.get(f"/runs/{run_id}/samples/{sample_id}")).status_code in (404, 422)


async def test_the_list_of_an_open_run_follows_its_answers(api: Served, tmp_path: Path) -> None:
    run_id = await answered_run(api, tmp_path, ["a"], right=[True])
    assert await _ids(api, run_id, where="id=*") == ["1.0"]
    missing = await api.http.get("/runs/00000000-0000-0000-0000-000000000000/samples")
    assert missing.status_code == 404
