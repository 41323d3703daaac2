"""What we export is imported again with the answers and scores that it had."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.shared.exchange.exported_run import exported, measure, result, results, samples
from vlmhyperbench.exchange.as_inspect import write_inspect
from vlmhyperbench.exchange.as_jsonl import write_jsonl
from vlmhyperbench.exchange.as_lm_eval import write_lm_eval
from vlmhyperbench.exchange.exported import ExportedSample
from vlmhyperbench.exchange.exporting import clean
from vlmhyperbench.exchange.reading import read
from vlmhyperbench.exchange.staging import staged

HOSTILE = "=cmd|' /C calc'!A0\x00\ud800;\"\r\n\u202e"
WRITERS: dict[str, tuple[Callable[..., None], str]] = {
    "vlmhyperbench-jsonl": (write_jsonl, "run.jsonl"),
    "lm-eval": (write_lm_eval, "tiny/samples_*.jsonl"),
    "inspect": (write_inspect, "run.eval"),
}


def _wanted() -> list[ExportedSample]:
    """Four plain requests, a repeat of the first, and one of hostile text."""
    repeat = result(5, sample=0, key="page/0", repeat=1, measures=[measure("anls", 0.1 + 0.2)], references=["blue"])
    odd = result(4, HOSTILE, question=HOSTILE, reasoning=HOSTILE, group={"doc_class": HOSTILE})
    return samples([*results(), repeat, odd])


def _reported(one: ExportedSample) -> dict[str, float]:
    return {m.key: m.value for m in one.whole("text@1") if m.value is not None}


@pytest.mark.parametrize("format_", WRITERS)
def test_every_answer_and_every_reported_score_comes_back(tmp_path: Path, format_: str) -> None:
    write, name = WRITERS[format_]
    out = tmp_path if format_ == "lm-eval" else tmp_path / name
    with staged(out) as staging:
        write(exported(), _wanted(), out=out, staging=staging)
    (path,) = tmp_path.glob(name)
    file = read(path)
    found = {(one.key, one.repeat): one for one in file.answers}
    assert file.format == format_
    assert file.task == "document-qa"
    assert {key: one.text for key, one in found.items()} == {(one.key, one.repeat): one.text for one in _wanted()}
    assert {key: one.error for key, one in found.items()} == {(one.key, one.repeat): one.failure for one in _wanted()}
    for one in _wanted():
        back = found[one.key, one.repeat]
        assert {name: back.reported.get(name) for name in _reported(one)} == _reported(one)
        assert (back.question, back.reasoning) == (one.question, one.reasoning)
        assert (back.prompt_tokens, back.completion_tokens) == (one.prompt_tokens, one.completion_tokens)
        assert (back.latency_ms, back.finish_reason) == (one.latency_ms, one.finish_reason)
        assert back.references == one.references
        assert dict(back.metadata) == dict(one.metadata)
    assert found["page/4", 0].text == clean(HOSTILE)
    assert found["page/0", 1].reported["anls"] == 0.1 + 0.2


def test_what_has_no_score_is_reported_by_none(tmp_path: Path) -> None:
    for format_, (write, name) in WRITERS.items():
        folder = tmp_path / format_
        folder.mkdir()
        out = folder if format_ == "lm-eval" else folder / name
        with staged(out) as staging:
            write(exported(), _wanted(), out=out, staging=staging)
        (path,) = folder.glob(name)
        unscored = next(one for one in read(path).answers if one.key == "page/2")
        assert dict(unscored.reported) == {"exact_match": 0.0}
