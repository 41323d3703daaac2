"""What we export is imported again with the answers and scores that it had."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import polars
import pytest

from tests.shared.exchange.exported_run import METRICS, exported, failed, measure, result, results, run, samples, spec
from tests.support.wording import Wording
from vlmhyperbench.domain.valid_text import valid_unicode
from vlmhyperbench.errors import InvalidInput
from vlmhyperbench.exchange.answers import read_answers, write_answers
from vlmhyperbench.exchange.as_inspect import write_inspect
from vlmhyperbench.exchange.as_jsonl import write_jsonl
from vlmhyperbench.exchange.as_lm_eval import write_lm_eval
from vlmhyperbench.exchange.as_tables import write_csv, write_parquet
from vlmhyperbench.exchange.exported import ExportedSample
from vlmhyperbench.exchange.exporting import exported_samples
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


def _reported(answer: ExportedSample) -> dict[str, float]:
    return {m.key: m.value for m in answer.whole("text@1") if m.value is not None}


@pytest.mark.parametrize("format_", WRITERS)
def test_every_answer_and_every_reported_score_comes_back(tmp_path: Path, format_: str) -> None:
    write, name = WRITERS[format_]
    out = tmp_path if format_ == "lm-eval" else tmp_path / name
    with staged(out) as staging:
        write(exported(), _wanted(), out=out, staging=staging)
    (path,) = tmp_path.glob(name)
    file = read(path)
    found = {(answer.key, answer.repeat): answer for answer in file.answers}
    assert file.format == format_
    assert file.task == "document-qa"
    assert {key: answer.text for key, answer in found.items()} == {
        (answer.key, answer.repeat): answer.text for answer in _wanted()
    }
    assert {key: answer.error for key, answer in found.items()} == {
        (answer.key, answer.repeat): answer.failure for answer in _wanted()
    }
    for answer in _wanted():
        back = found[answer.key, answer.repeat]
        assert {name: back.reported.get(name) for name in _reported(answer)} == _reported(answer)
        assert (back.question, back.reasoning) == (answer.question, answer.reasoning)
        assert (back.prompt_tokens, back.completion_tokens) == (answer.prompt_tokens, answer.completion_tokens)
        assert (back.latency_ms, back.finish_reason) == (answer.latency_ms, answer.finish_reason)
        assert back.references == answer.references
        assert dict(back.metadata) == dict(answer.metadata)
    assert found["page/4", 0].text == valid_unicode(HOSTILE)
    assert found["page/0", 1].reported["anls"] == 0.1 + 0.2


def test_what_has_no_score_is_reported_by_none(tmp_path: Path) -> None:
    for format_, (write, name) in WRITERS.items():
        folder = tmp_path / format_
        folder.mkdir()
        out = folder if format_ == "lm-eval" else folder / name
        with staged(out) as staging:
            write(exported(), _wanted(), out=out, staging=staging)
        (path,) = folder.glob(name)
        unscored = next(answer for answer in read(path).answers if answer.key == "page/2")
        assert dict(unscored.reported) == {"exact_match": 0.0}


ODD = ["[1]", "=1", "\t", "'=1", "''-", "", "a;b", '"q"', "two\nlines\r\nand\rmore", " spaced ", "\u2028", "-5", "["]


@pytest.mark.parametrize(
    ("format_", "write"), [("vlmhyperbench-csv", write_csv), ("vlmhyperbench-parquet", write_parquet)]
)
def test_our_own_tables_come_back_whole(tmp_path: Path, format_: str, write: Callable[..., None]) -> None:
    odd = [
        result(
            10 + no,
            text,
            key=f"{text}{no}",
            question=text or None,
            reasoning=text,
            references=[text],
            finish_reason="stop",
        )
        for no, text in enumerate(ODD)
    ]
    many = result(40, "x", references=ODD, measures=[measure("anls", 1.0), measure("anls", 0.5, field="total")])
    none = result(41, "x", references=[], measures=[])
    models = failed(42).model_copy(update={"outcome": "model_failure"})
    wanted = samples([*results(), *odd, many, none, models, result(43, "x", repeat=1, key="page/0")])
    path = tmp_path / "run"
    with staged(path) as staging:
        write(exported(), wanted, out=path, staging=staging)
    file = read(path)
    found = list(file.answers)
    assert (file.format, len(found)) == (format_, len(wanted))
    for answer, sample in zip(found, wanted, strict=True):
        assert (answer.key, answer.repeat, answer.text, answer.references) == (
            sample.key,
            sample.repeat,
            sample.text,
            sample.references,
        )
        assert (answer.question, answer.reasoning, answer.error) == (sample.question, sample.reasoning, sample.failure)
        assert (answer.failure, answer.finish_reason, answer.latency_ms) == (
            sample.blamed,
            sample.finish_reason,
            sample.latency_ms,
        )
        assert (answer.prompt_tokens, answer.completion_tokens) == (sample.prompt_tokens, sample.completion_tokens)
        assert (dict(answer.metadata), dict(answer.reported)) == (dict(sample.metadata), _reported(sample))
    assert {sample.failure for sample in found} == {None, "model", "infrastructure"}
    assert write_answers(tmp_path / "neutral", read(path)) == len(wanted)
    assert [sample.failure for sample in read_answers(tmp_path / "neutral").answers] == [
        sample.blamed for sample in wanted
    ]


def test_two_profiles_of_a_metric_come_back_under_both_names(tmp_path: Path) -> None:
    metrics = tuple(METRICS[0].model_copy(update={"profile": profile}) for profile in ("paper", "strict"))
    pinned = spec(metrics=metrics)
    measures = [
        measure("anls", value).model_copy(update={"profile": name}) for name, value in (("paper", 1), ("strict", 0))
    ]
    detail = run(pinned=pinned)
    for write in (write_csv, write_parquet):
        path = tmp_path / write.__name__
        with staged(path) as staging:
            write(exported(), exported_samples(detail, [[result(0, measures=measures)]]), out=path, staging=staging)
        assert [dict(answer.reported) for answer in read(path).answers] == [{"anls@paper": 1.0, "anls@strict": 0.0}]


@pytest.mark.parametrize(
    "text", ["run;id;repeat;model_answer;outcome;metric;extractor;metadata\n", "PAR1", "PAR1" + "x" * 100 + "PAR1"]
)
def test_a_table_that_only_looks_like_ours_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "run"
    path.write_text(text)
    with pytest.raises(InvalidInput):
        list(read(path).answers)


def test_another_parquet_file_is_refused(tmp_path: Path, wording: Wording) -> None:
    polars.DataFrame({"a": [1]}).write_parquet(tmp_path / "a")
    with pytest.raises(InvalidInput) as refused:
        read(tmp_path / "a")
    wording(refused.value)
