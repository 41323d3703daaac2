"""Samples of lm-evaluation-harness: what the model wrote, and what one filter's scores say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.shared.exchange.reading import DATA, answers, taken, write, write_lines
from tests.support.wording import Wording
from vlmhyperbench.errors import InvalidInput, NotFound
from vlmhyperbench.exchange import lm_eval

FOLDER = DATA / "lm_eval-0.4.13"
STAMP = "2026-11-21T10-04-14.834969"
SUMS = FOLDER / f"samples_sums_{STAMP}.jsonl"
RESULTS = FOLDER / f"results_{STAMP}.json"


def row(**changes: object) -> dict[str, object]:
    """Make one sample of a task that generates."""
    made = {
        "doc_id": 0,
        "doc": {"question": "2+2?"},
        "target": "4",
        "arguments": {"gen_args_0": {"arg_0": "Q: 2+2?", "arg_1": {"until": "\n", "temperature": 0.0}}},
        "resps": [["four"]],
        "filtered_resps": ["four"],
        "filter": "none",
        "metrics": ["acc"],
        "acc": 0.0,
    }
    return {**made, **changes}


def test_the_true_file_has_raw_answers_and_the_scores_of_its_first_filter(wording: Wording) -> None:
    file, found = taken(SUMS)
    assert (file.format, file.tool, file.model, file.task) == ("lm-eval", "lm_eval", None, "sums")
    assert file.decoding == {"stop": ["\n"], "max_tokens": 16, "do_sample": False}
    assert [(answer.key, answer.text, answer.references, dict(answer.reported)) for answer in found] == [
        ("0", "4", ("4",), {"exact_match": 1.0}),
        ("1", "It is 9", ("9",), {"exact_match": 0.0}),
        ("2", "1000\u2028m", ("1000 m",), {"exact_match": 0.0}),
    ]
    assert found[0].question == "2+2?"
    assert found[0].metadata == {"qid": "q-1", "gold": 1, "subject": "sums"}
    wording("\n".join(file.notes))


def test_scores_of_a_filter_that_is_named_are_taken(wording: Wording) -> None:
    file, found = taken(SUMS, filter_name="number")
    assert [answer.reported["exact_match"] for answer in found] == [1.0, 1.0, 0.0]
    assert [answer.text for answer in found][1] == "It is 9"
    wording("\n".join(file.notes))
    with pytest.raises(InvalidInput) as refused:
        answers(SUMS, filter_name="flexible")
    wording(refused.value, SUMS=SUMS)


def test_results_name_model_and_version() -> None:
    file, _ = taken(SUMS, results=RESULTS)
    assert (file.model, file.tool, file.task) == ("said/tiny", "lm_eval 0.4.13", "sums")


def test_results_of_other_tasks_and_files_that_are_none_are_refused(tmp_path: Path, wording: Wording) -> None:
    other = write(tmp_path / "results.json", json.dumps({"results": {"maths": {}}}))
    with pytest.raises(InvalidInput) as refused:
        answers(SUMS, results=other)
    wording(refused.value)
    with pytest.raises(InvalidInput) as refused:
        answers(SUMS, results=write(tmp_path / "results.json", "{}"))
    wording(refused.value)
    with pytest.raises(NotFound):
        answers(SUMS, results=tmp_path / "none.json")


def test_results_of_older_versions_name_the_model_in_its_arguments(tmp_path: Path) -> None:
    older = {"results": {"t": {}}, "config": {"model": "hf", "model_args": "pretrained=org/model,dtype=auto"}}
    file, _ = taken(write_lines(tmp_path / "a", row()), results=write(tmp_path / "r", json.dumps(older)))
    assert (file.model, file.tool, file.task) == ("org/model", "lm_eval", "t")


def test_samples_that_are_missing_are_noted(tmp_path: Path) -> None:
    path = write(tmp_path / SUMS.name, "".join(SUMS.read_text("utf-8").split("\n")[0] + "\n"))
    assert any("1 of 3" in note for note in taken(path, results=RESULTS)[0].notes)


def test_several_responses_are_repeats_and_the_score_is_that_of_the_one_it_was_taken_of() -> None:
    found = answers(FOLDER / f"samples_repeated_{STAMP}.jsonl")
    assert [(answer.key, answer.repeat, answer.text) for answer in found[:2]] == [("0", 0, "4!"), ("0", 1, "4")]
    assert [dict(answer.reported) for answer in found[:2]] == [{"exact_match": 0.0}, {}]


def test_a_score_of_several_responses_together_is_no_answers_own(tmp_path: Path, wording: Wording) -> None:
    path = write_lines(tmp_path / "a", row(resps=[["3", "4", "4"]], filtered_resps=["4"], acc=1.0))
    file, found = taken(path)
    assert [answer.text for answer in found] == ["3", "4", "4"]
    assert [dict(answer.reported) for answer in found] == [{}, {}, {}]
    wording("\n".join(file.notes))


def test_log_likelihoods_are_refused() -> None:
    with pytest.raises(InvalidInput) as refused:
        answers(FOLDER / f"samples_choice_{STAMP}.jsonl")
    assert refused.value.code == "no_text"
    assert "generate_until" in refused.value.cure


def test_a_rolling_log_likelihood_is_no_text_either(tmp_path: Path) -> None:
    rolling = row(arguments={"gen_args_0": {"arg_0": "the text"}}, resps=[["-12.5"]])
    with pytest.raises(InvalidInput, match="log-likelihoods"):
        answers(write_lines(tmp_path / "a", rolling))


def test_arguments_as_older_versions_write_them_are_read(tmp_path: Path) -> None:
    file, (answer,) = taken(write_lines(tmp_path / "a", row(arguments=[["Q: 2+2?", {"max_new_tokens": 8}]], doc={})))
    assert answer.question == "Q: 2+2?"
    assert file.decoding == {"max_tokens": 8}


def test_only_numbers_are_scores(tmp_path: Path) -> None:
    odd = {"acc": True, "f1": float("nan"), "bleu": ["a", "b"], "em": 0.5, "inf": float("inf")}
    (answer,) = answers(write_lines(tmp_path / "a", row(metrics=list(odd), **odd)))
    assert answer.reported == {"acc": 1.0, "em": 0.5}
    unnamed = {name: value for name, value in row(chrf=12.5).items() if name != "metrics"}
    (answer,) = answers(write_lines(tmp_path / "b", unnamed))
    assert answer.reported == {"acc": 0.0, "chrf": 12.5}


@pytest.mark.parametrize(
    ("target", "references"),
    [
        ("['a', \"it's\"]", ("a", "it's")),
        ("[]", ()),
        ("[2, 5]", ("[2, 5]",)),
        ('["a", "b"]', ('["a", "b"]',)),
        ("['\\d']", ("['\\d']",)),
        ("[" * 500, ("[" * 500,)),
        (["a", "b"], ("a", "b")),
        (4, ("4",)),
        ("", None),
        (None, None),
    ],
)
def test_a_target_is_one_reference_unless_it_is_a_list_as_python_shows_it(
    tmp_path: Path, target: object, references: tuple[str, ...] | None
) -> None:
    (answer,) = answers(write_lines(tmp_path / "a", row(target=target)))
    assert answer.references == references


def test_a_field_of_the_document_can_be_the_id(tmp_path: Path, wording: Wording) -> None:
    assert [answer.key for answer in answers(SUMS, key="qid")] == ["q-1", "q-2", "q-3"]
    with pytest.raises(InvalidInput) as refused:
        answers(SUMS, key="uid")
    wording(refused.value, SUMS=SUMS)
    with pytest.raises(InvalidInput) as refused:
        answers(write_lines(tmp_path / "a", row(doc={"question": 1.5})), key="question")
    wording(refused.value)


@pytest.mark.parametrize(
    "changes",
    [
        {"doc_id": None},
        {"doc_id": True},
        {"doc_id": 0.5},
        {"resps": []},
        {"resps": [["a"], ["b"]]},
        {"resps": [[["-1.0", "False"]]]},
    ],
)
def test_a_sample_that_makes_no_sense_is_named(tmp_path: Path, changes: dict[str, object], wording: Wording) -> None:
    path = write_lines(tmp_path / "a", row(doc_id=7), row(**changes))
    with pytest.raises(InvalidInput) as refused:
        answers(path)
    wording(refused.value)
    assert refused.value.message.startswith(f"{path}:2: ")


def test_ids_that_repeat_name_both_lines(tmp_path: Path, wording: Wording) -> None:
    path = write_lines(tmp_path / "a", row(), row(doc_id=1), row(doc_id="0"))
    with pytest.raises(InvalidInput) as refused:
        answers(path)
    wording(refused.value)
    assert f"{path}:3" in refused.value.message
    assert f"{path}:1" in refused.value.message


def test_a_line_cut_in_half_and_a_key_that_comes_twice_are_named(tmp_path: Path, wording: Wording) -> None:
    line = json.dumps(row())
    with pytest.raises(InvalidInput) as refused:
        answers(write(tmp_path / "a", f"{line}\n{line[:80]}"))
    wording(refused.value)
    with pytest.raises(InvalidInput, match="the key 'doc_id' appears twice"):
        answers(write(tmp_path / "a", f'{line}\n{{"doc_id": 1, "doc_id": 2}}'))


def test_results_too_large_to_be_results_are_refused(tmp_path: Path, wording: Wording) -> None:
    huge = tmp_path / "results.json"
    with huge.open("wb") as file:
        file.truncate(lm_eval.MAX_RESULTS_BYTES + 1)
    with pytest.raises(InvalidInput) as refused:
        answers(SUMS, results=huge)
    wording(refused.value)


def test_what_our_own_export_says_beside_is_taken(tmp_path: Path) -> None:
    own = {"repeat": 2, "error": None, "finish_reason": "stop", "reasoning": "2 and 2", "prompt_tokens": 9}
    document = {"id": "page/1", "question": "2+2?", "references": ["4", "four"]}
    made = row(doc=document, target="['4', 'four']", vlmhyperbench={**own, "completion_tokens": 1, "latency_ms": 250.5})
    failed = row(doc={**document, "id": "page/2"}, resps=[[]], vlmhyperbench={**own, "error": "timeout"})
    first, second = answers(write_lines(tmp_path / "a", made, failed))
    assert (first.key, first.repeat, first.references, first.text) == ("page/1", 2, ("4", "four"), "four")
    assert (first.reasoning, first.finish_reason, first.reported) == ("2 and 2", "stop", {"acc": 0.0})
    assert (first.prompt_tokens, first.completion_tokens, first.latency_ms) == (9, 1, 250.5)
    assert (second.key, second.text, second.error) == ("page/2", None, "timeout")


def test_a_target_that_is_a_list_is_noted(tmp_path: Path, wording: Wording) -> None:
    notes = taken(write_lines(tmp_path / "a", row(target="['a', 'b']"), row(doc_id=1, target="['c']")))[0].notes
    wording("\n".join(notes))


def test_a_long_answer_and_a_deep_document_are_no_trouble(tmp_path: Path, wording: Wording) -> None:
    (answer,) = answers(write_lines(tmp_path / "a", row(resps=[["я" * 1_000_000]])))
    assert len(answer.text or "") == 1_000_000
    deep = json.dumps(row()).replace('"doc": {', '"doc": {"x": ' + "[" * 100_000 + "]" * 100_000 + ", ")
    with pytest.raises(InvalidInput) as refused:
        answers(write(tmp_path / "b", deep), "lm-eval")
    wording(refused.value)
