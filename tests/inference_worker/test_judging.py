"""The samples of a judge: one per answer and order; a missing answer becomes a sample with an error."""

from __future__ import annotations

import json

import polars

from tests.shared.domain.builders_of_jobs import JUDGING
from vlmhyperbench.data import manifest
from vlmhyperbench_inference_worker.judging import MAX_CHARS, NO_ANSWER, TOO_LONG, judged_samples

IMAGE = {"sha256": "a" * 64, "media_type": "image/png", "width": 2, "height": 3, "size_bytes": 4}


def answers(*rows: tuple[int, str, str | None]) -> polars.DataFrame:
    """Rows of (ordinal, status, text), as `read_facts` returns them."""
    return polars.DataFrame(
        [
            {
                "ordinal": ordinal,
                "key": f"k{ordinal}",
                "question": "How much?",
                "references": ["12", "12.00"],
                "images": [IMAGE],
                "metadata": json.dumps({"doc_class": "receipt", "first": "mine"}),
                "status": status,
                "text": text,
            }
            for ordinal, status, text in rows
        ],
        schema_overrides={"text": polars.String(), "images": manifest.SCHEMA["images"]},
    )


def test_an_answer_is_shown_in_both_orders() -> None:
    first, other = judged_samples(answers((0, "ok", "twelve")), JUDGING, 1)
    assert (first.index, other.index, first.question, first.error) == (0, 1, "How much?", None)
    assert (first.metadata["first"], first.metadata["second"]) == ("12 or 12.00", "twelve")
    assert (other.metadata["first"], other.metadata["second"]) == ("twelve", "12 or 12.00")
    assert (first.metadata["doc_class"], first.key, other.key) == ("receipt", "k0, reference first", "k0, answer first")
    assert first.images == ()


def test_images_are_shown_where_the_judge_wants_them() -> None:
    seeing = JUDGING.model_copy(update={"images": True, "swap": False})
    [sample] = judged_samples(answers((0, "ok", "x")), seeing, 1)
    assert [image.sha256 for image in sample.images] == ["a" * 64]


def test_an_answer_that_failed_or_is_missing_becomes_a_sample_with_an_error() -> None:
    once = JUDGING.model_copy(update={"swap": False})
    samples = list(judged_samples(answers((0, "error", None), (2, "ok", "")), once, 3))
    assert [(sample.index, sample.error) for sample in samples] == [(0, NO_ANSWER), (1, NO_ANSWER), (2, None)]


def test_an_answer_that_is_too_long_for_a_judge_becomes_a_sample_with_an_error() -> None:
    once = JUDGING.model_copy(update={"swap": False})
    samples = list(judged_samples(answers((0, "ok", "x" * MAX_CHARS), (1, "ok", "x")), once, 2))
    assert [sample.error for sample in samples] == [TOO_LONG, None]
