"""Rows of an imported file come from a bounded process, in parts of limited size."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from vlmhyperbench.bounded import TOO_LARGE, ChildBounds, run_bounded
from vlmhyperbench.data import manifest
from vlmhyperbench.data.manifest import ManifestSample
from vlmhyperbench.domain.specs import ANSWERS_DATASET, DatasetSpec
from vlmhyperbench.errors import InvalidInput
from vlmhyperbench.exchange.answers import AnswersFile, ImportedAnswer, write_answers
from vlmhyperbench_eval_worker.importing import take

MIB = 2**20


def _asked(folder: Path, *answers: ImportedAnswer) -> dict[str, Any]:
    file = AnswersFile(format="x", tool=None, model=None, task=None, decoding={}, answers=iter(answers))
    write_answers(folder / "answers.jsonl", file)
    keys = dict.fromkeys(answer.key for answer in answers)
    samples = [ManifestSample(index=no, key=key, question="?", references=("x",)) for no, key in enumerate(keys)]
    (folder / "manifest").write_bytes(manifest.write(samples)[1])
    dataset = DatasetSpec(name="d", version="1", type=ANSWERS_DATASET, path=str(folder / "answers.jsonl"))
    return {
        "file": str(folder / "answers.jsonl"),
        "manifest": str(folder / "manifest"),
        "answers": "0" * 64,
        "dataset": dataset.model_dump(mode="json"),
        "phase": 1,
        "missing": list(range(len(keys))),
    }


def _taken(folder: Path, asked: dict[str, Any], bounds: ChildBounds | None = None) -> tuple[Any, list[dict[str, Any]]]:
    out = folder / "out"
    out.mkdir()
    shown = asyncio.run(run_bounded(take, asked, str(out), what="it", bounds=bounds))
    texts = [(out / f"{no}.jsonl").read_text() for no in range(len(list(out.iterdir())))]
    return shown, [json.loads(line) for text in texts for line in text.splitlines()]


def test_rows_have_the_file_s_answers_and_the_kind_of_failure(tmp_path: Path) -> None:
    answers = [
        ImportedAnswer(key="a", text="x", references=("x",), reported={"acc": 1.0}),
        ImportedAnswer(key="b", error="refused", failure="model"),
        ImportedAnswer(key="c", error="timed out"),
    ]
    shown, rows = _taken(tmp_path, _asked(tmp_path, *answers))
    assert shown == {"left_out": 0, "differing": 0, "parts": 1}
    assert [(row["ordinal"], row["status"], row["text"], row.get("failure")) for row in rows] == [
        (0, "ok", "x", None),
        (1, "error", None, "model"),
        (2, "error", None, "infrastructure"),
    ]


def test_parts_are_bounded_by_rows_and_by_size(tmp_path: Path) -> None:
    large = [ImportedAnswer(key=f"large {no}", text="x" * (9 * MIB)) for no in range(3)]
    small = [ImportedAnswer(key=f"small {no}", text="x") for no in range(1500)]
    shown, rows = _taken(tmp_path, _asked(tmp_path, *large, *small))
    assert (shown["parts"], len(rows)) == (3, 1503)


def test_a_file_that_needs_too_much_memory_fails_its_import(tmp_path: Path) -> None:
    asked = _asked(tmp_path, ImportedAnswer(key="a", text="x" * (32 * MIB)))
    with pytest.raises(InvalidInput) as refused:
        _taken(tmp_path, asked, ChildBounds(memory_bytes=48 * MIB))
    assert refused.value.code == TOO_LARGE
