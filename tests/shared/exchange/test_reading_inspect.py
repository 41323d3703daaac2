"""Logs of inspect_ai: samples, scores as numbers, and what did not end well."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.shared.exchange.reading import DATA, answers, taken, write
from tests.shared.exchange.zips import HEADER, zipped
from tests.support.wording import Wording
from vlmhyperbench.errors import InvalidInput
from vlmhyperbench.exchange import inspect_log

EVAL = DATA / "inspect_ai-0.3.285.eval"
JSON = DATA / "inspect_ai-0.3.285.json"
CHUNKED = DATA / "inspect_ai-0.3.285-chunked.eval"


def sample(**changes: object) -> dict[str, object]:
    """Make a sample that was answered and scored."""
    message = {"role": "assistant", "content": "blue"}
    made = {
        "id": "a",
        "epoch": 1,
        "input": "What colour?",
        "target": "blue",
        "output": {"model": "m", "choices": [{"message": message, "stop_reason": "stop"}], "completion": "blue"},
        "scores": {"match": {"value": "C"}},
    }
    return {**made, **changes}


def log(path: Path, *samples: dict[str, object], **header: object) -> Path:
    """Write a log with deflate."""
    entries = {f"samples/{answer['id']}_epoch_{answer['epoch']}.json": answer for answer in samples}
    return zipped(path, {"header.json": {**HEADER, **header}, **entries})


def test_the_true_log_is_read_with_answers_scores_and_its_error() -> None:
    file, found = taken(EVAL)
    assert (file.format, file.tool, file.model, file.task) == (
        *("inspect", "inspect_ai 0.3.285", "mockllm/model", "capitals"),
    )
    assert file.decoding == {"temperature": 0.5, "max_tokens": 32, "stop": ["\n"]}
    assert file.notes == []
    by_key = {(answer.key, answer.repeat): answer for answer in found}
    assert sorted(by_key) == [(key, epoch) for key in ("3", "kyiv", "paris") for epoch in (0, 1)]
    kyiv = by_key["kyiv", 0]
    assert (kyiv.text, kyiv.reasoning, kyiv.references) == ("KYIV", "Ukraine, so Kyiv", ("Kyiv", "KYIV"))
    assert (kyiv.prompt_tokens, kyiv.completion_tokens, kyiv.finish_reason) == (9, 3, "stop")
    assert kyiv.reported == {"includes": 1.0, "parts/length": 4.0, "parts/shout": 1.0, "half": 0.5}
    assert (kyiv.question, kyiv.metadata) == ("Capital of Ukraine?", {"subject": "Europe"})
    assert kyiv.location == f"{EVAL}!samples/kyiv_epoch_1.json"
    assert by_key["paris", 1].finish_reason == "length"
    assert by_key["paris", 0].reported["half"] == 0.0
    assert by_key["paris", 0].prompt_tokens is None
    assert "half" not in by_key["3", 0].reported
    assert by_key["3", 0].metadata == {"subject": "sums", "n": None}
    failed = by_key["3", 1]
    assert (failed.text, failed.error, failed.reported) == (None, "RuntimeError('the server hung up')", {})


@pytest.mark.parametrize("other", [JSON, CHUNKED])
def test_the_same_log_as_json_and_in_chunks_says_the_same(other: Path) -> None:
    def summary_of(path: Path) -> list[tuple[object, ...]]:
        return [
            tuple(getattr(answer, name) for name in answer.__slots__ if name != "location") for answer in answers(path)
        ]

    assert summary_of(other) == summary_of(EVAL)


def test_numbers_are_those_that_the_tools_own_metrics_had() -> None:
    """`mean` of the epochs, then of the samples, as the log's results say: 0.5, 4.5, 1/6 and 0.25."""
    header = json.loads(JSON.read_text())["results"]["scores"]
    said = {
        answer["name"]: answer["metrics"].get("accuracy", answer["metrics"].get("mean"))["value"] for answer in header
    }
    found = answers(EVAL)
    for name, ours in (
        ("includes", "includes"),
        ("length", "parts/length"),
        ("shout", "parts/shout"),
        ("half", "half"),
    ):
        means = []
        for key in ("paris", "kyiv", "3"):
            values = [answer.reported[ours] for answer in found if answer.key == key and ours in answer.reported]
            means += [sum(values) / len(values)] if values else []
        assert sum(means) / len(means) == pytest.approx(said[name])


@pytest.mark.parametrize(
    ("value", "reported"),
    [
        ("C", 1.0),
        ("P", 0.5),
        ("I", 0.0),
        ("N", 0.0),
        ("c", None),
        ("Yes", 1.0),
        ("false", 0.0),
        ("0.25", 0.25),
        (True, 1.0),
        (3, 3.0),
        (float("nan"), None),
        ("nan", None),
        ("good", None),
        (None, None),
    ],
)
def test_a_value_is_the_number_that_value_to_float_makes_or_none(
    tmp_path: Path, value: object, reported: float | None
) -> None:
    (answer,) = answers(log(tmp_path / "a.eval", sample(scores={"s": {"value": value}})))
    assert answer.reported == ({} if reported is None else {"s": reported})


def test_values_with_parts_are_several_scores_and_other_values_are_counted(tmp_path: Path, wording: Wording) -> None:
    scores = {"d": {"value": {"x": "C", "y": 0.5, "z": "?"}}, "l": {"value": [1, "I"]}}
    file, (answer,) = taken(log(tmp_path / "a.eval", sample(scores=scores)))
    assert answer.reported == {"d/x": 1.0, "d/y": 0.5, "l/0": 1.0, "l/1": 0.0}
    wording("\n".join(file.notes))


def test_the_score_of_older_logs_is_read(tmp_path: Path) -> None:
    old = {name: value for name, value in sample(score={"value": "C"}).items() if name != "scores"}
    assert answers(log(tmp_path / "a.eval", old))[0].reported == {"score": 1.0}


@pytest.mark.parametrize(
    "changes",
    [
        {"error": {"message": "crashed"}},
        {"output": {"choices": [], "error": "refused"}},
        {"output": {"choices": []}, "limit": {"type": "time"}},
        {"output": {}},
    ],
    ids=["error", "refused", "limit", "empty"],
)
def test_a_sample_without_an_answer_has_the_reason(
    tmp_path: Path, changes: dict[str, object], wording: Wording
) -> None:
    (answer,) = answers(log(tmp_path / "a.eval", sample(**changes)))
    assert answer.text is None
    wording(answer.error)


def test_an_answer_of_a_sample_that_failed_later_does_not_count_and_is_noted(tmp_path: Path, wording: Wording) -> None:
    file, (answer,) = taken(log(tmp_path / "a.eval", sample(error={"message": "the scorer crashed"})))
    assert answer.text is None
    wording("\n".join(file.notes))


@pytest.mark.parametrize("message", [None, "yes", {}, {"content": 4}, {"content": None}, {"content": {"text": "yes"}}])
def test_what_is_no_answer_is_a_failed_sample(tmp_path: Path, message: object) -> None:
    output = {"choices": [{"message": message, "stop_reason": "stop"}], "usage": {"output_tokens": -1}}
    (answer,) = answers(log(tmp_path / "a.eval", sample(output=output)))
    assert (answer.text, str(answer.error).partition(":")[0], answer.completion_tokens) == (None, "bad_answer", None)


def test_an_empty_answer_is_an_answer(tmp_path: Path) -> None:
    empty = {"choices": [{"message": {"content": ""}, "stop_reason": "unknown"}], "completion": ""}
    (answer,) = answers(log(tmp_path / "a.eval", sample(output=empty, target="")))
    assert (answer.text, answer.error, answer.finish_reason, answer.references) == ("", None, None, None)


def test_a_chat_is_asked_by_its_last_message_and_attachments_are_put_back(tmp_path: Path, wording: Wording) -> None:
    picture = {"type": "image", "image": "attachment://1"}
    chat = [
        {"role": "system", "content": "Be short."},
        {
            "role": "user",
            "content": [picture, {"type": "text", "text": "Colour?"}],
        },
    ]
    output = {"choices": [{"message": {"content": "attachment://x"}}], "completion": "attachment://x"}
    made = sample(input=chat, output=output, attachments={"x": "long"})
    (answer,) = answers(log(tmp_path / "a.eval", made))
    assert (answer.question, answer.text) == ("Colour?", "long")
    with pytest.raises(InvalidInput) as refused:
        answers(log(tmp_path / "b.eval", {**made, "attachments": {}}))
    wording(refused.value)


def test_unusual_features_of_a_log_are_noted(tmp_path: Path, wording: Wording) -> None:
    choice = {"message": {"content": "blue"}}
    path = log(
        tmp_path / "a.eval",
        sample(output={"choices": [choice, choice], "completion": "blue"}),
        status="cancelled",
        invalidated=True,
        results={"total_samples": 3},
    )
    wording("\n".join(taken(path)[0].notes))


def test_a_log_that_was_not_finished_is_read_by_its_start(tmp_path: Path, wording: Wording) -> None:
    start = {"version": 2, "eval": {"task": "t", "model": "m"}, "plan": {}}
    path = zipped(tmp_path / "a.eval", {"_journal/start.json": start, "samples/a_epoch_1.json": sample()})
    file, found = taken(path)
    assert (file.model, [answer.text for answer in found]) == ("m", ["blue"])
    wording("\n".join(file.notes))


def test_the_error_for_a_duplicate_id_names_both_entries(tmp_path: Path, wording: Wording) -> None:
    entries = {"header.json": HEADER, "samples/1_epoch_1.json": sample(id=1), "samples/b_epoch_1.json": sample(id="1")}
    path = zipped(tmp_path / "a.eval", entries)
    with pytest.raises(InvalidInput) as refused:
        answers(path)
    wording(refused.value)


@pytest.mark.parametrize(
    "entries",
    [
        {"samples/a_epoch_1.json": sample()},
        {"header.json": {"version": 2}},
        {"header.json": HEADER, "samples/a_epoch_1.json": b'{"id": "a", "epo'},
        {"header.json": HEADER, "samples/a_epoch_1.json": []},
        {"header.json": HEADER, "samples/a_epoch_1.json": {"id": "a"}},
        {"header.json": HEADER, "samples/a_epoch_1.json": {"epoch": 1}},
        {"header.json": HEADER, "samples/a_epoch_1.json": {"id": None, "epoch": 1}},
        {"header.json": HEADER},
    ],
)
def test_a_log_that_makes_no_sense_is_refused(tmp_path: Path, entries: dict[str, object], wording: Wording) -> None:
    with pytest.raises(InvalidInput) as refused:
        answers(zipped(tmp_path / "a.eval", entries), "inspect")
    wording(refused.value)


def test_a_json_log_cut_in_half_and_one_too_large_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wording: Wording
) -> None:
    whole = JSON.read_bytes()
    with pytest.raises(InvalidInput) as refused:
        answers(write(tmp_path / "a.json", whole[: len(whole) // 2]))
    wording(refused.value)
    huge = tmp_path / "b.json"
    with huge.open("wb") as file:
        file.write(whole)
        file.truncate(inspect_log.MAX_JSON_BYTES + 1)
    with pytest.raises(InvalidInput) as refused:
        answers(huge)
    wording(refused.value)
