"""`evaluate`: what a function is given, what its answers and failures count, and the forms of the result."""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path

import polars
import pytest

from vlmhyperbench.errors import InvalidInput, NotFound, VlmHyperBenchError
from vlmhyperbench.evaluation import Evaluation, Example, evaluate
from vlmhyperbench.evaluation.facts import COLUMNS
from vlmhyperbench.facts.schema import PAYLOAD_COLUMNS, polars_schema
from vlmhyperbench_sdk.types import JsonObject

QUESTIONS = ["question,answer,question_type", "What is one?,1,odd", "What is two?,2,even", "What is three?,3,odd"]
ANSWERS = {"What is one?": "1", "What is two?": "2", "What is three?": "3"}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with a task of three questions."""
    monkeypatch.setenv("VLMHB_HOME", str(tmp_path))
    registries = tmp_path / "registries"
    (tmp_path / "questions.csv").write_text("\n".join(QUESTIONS) + "\n")
    for path, text in {
        "datasets/small.yaml": f"type: annotation_csv\npath: {tmp_path}/questions.csv\n",
        "tasks/small.yaml": "dataset: small\nprompt: document-qa\nmetrics: [exact_match]\ngroup_by: [question_type]\n",
        "prompts/stern.yaml": "system_prompt: Be stern.\nuser_prompt: '{{ question }} Now.'\n",
    }.items():
        (registries / path).parent.mkdir(parents=True, exist_ok=True)
        (registries / path).write_text(text)
    return tmp_path


def right(prompt: str, images: list[bytes]) -> str:
    assert images == []
    return ANSWERS[prompt]


def scores(evaluation: Evaluation) -> list[tuple[float | None, int, int]]:
    return [(row.value, row.n, row.n_without_value) for row in evaluation.metrics()]


def test_right_answers_have_the_best_score_in_every_group() -> None:
    evaluation = evaluate("small", right)
    assert scores(evaluation) == [(1.0, 3, 0)]
    assert {row.group: row.value for row in evaluation.metrics(by="question_type")} == {"even": 1.0, "odd": 1.0}
    assert evaluation.summary.state == "SUCCEEDED"


def test_a_limit_takes_the_first_samples() -> None:
    assert scores(evaluate("small", right, limit=2)) == [(1.0, 2, 0)]


def test_what_the_function_raises_counts_against_it_by_its_class() -> None:
    def fails(prompt: str, _images: list[bytes]) -> str:
        if "two" in prompt:
            raise KeyError("no two")
        return ANSWERS[prompt]

    evaluation = evaluate("small", fails)
    counts = evaluation.summary.counts
    assert (counts.answered, counts.model_failures, counts.infrastructure_failures) == (2, 1, 0)
    assert scores(evaluation) == [(pytest.approx(2 / 3), 3, 0)]
    [group] = evaluation.summary.errors
    assert (group.code, group.cause, group.count, group.message) == ("KeyError", "model", 1, "'no two'")
    row = evaluation.to_polars().row(1, named=True)
    assert (row["error_code"], row["outcome"], row["text"]) == ("KeyError", "model_failure", None)
    assert scores(evaluate("small", fails, on_model_failure="exclude")) == [(1.0, 2, 1)]


def test_something_else_than_text_is_a_failure_and_half_a_surrogate_is_replaced() -> None:
    answers = {"What is one?": 1, "What is two?": "2\ud800", "What is three?": "3"}
    table = evaluate("small", lambda prompt, images: answers[prompt]).to_polars()
    assert table["error_code"].to_list() == ["not_text", None, None]
    assert table["text"].to_list() == [None, "2\N{REPLACEMENT CHARACTER}", "3"]


def test_a_coroutine_function_is_asked_several_questions_at_once() -> None:
    together = asyncio.Barrier(3)

    async def waits(prompt: str, _images: list[bytes]) -> str:
        async with asyncio.timeout(60):
            await together.wait()
        return ANSWERS[prompt]

    assert scores(evaluate("small", waits, concurrency=3)) == [(1.0, 3, 0)]


def test_a_function_is_called_in_several_threads_or_in_the_caller_s_own() -> None:
    together, own = threading.Barrier(3, timeout=60), threading.get_ident()

    def waits(prompt: str, _images: list[bytes]) -> str:
        together.wait()
        return ANSWERS[prompt]

    def stays(prompt: str, _images: list[bytes]) -> str:
        assert threading.get_ident() == own
        return ANSWERS[prompt]

    assert scores(evaluate("small", waits, concurrency=3)) == [(1.0, 3, 0)]
    assert scores(evaluate("small", stays)) == [(1.0, 3, 0)]


def test_it_works_where_a_loop_runs_already_as_in_a_notebook() -> None:
    async def answers(prompt: str, _images: list[bytes]) -> str:
        return ANSWERS[prompt]

    async def cell() -> Evaluation:
        return evaluate("small", answers)

    assert scores(asyncio.run(cell())) == [(1.0, 3, 0)]


def test_a_system_text_reaches_a_function_that_takes_it_and_no_other() -> None:
    seen = []

    def takes(prompt: str, _images: list[bytes], *, system: str | None = None) -> str:
        seen.append((prompt, system))
        return ""

    evaluate("small", takes, prompt="stern", limit=1)
    assert seen == [("What is one? Now.", "Be stern.")]
    with pytest.raises(InvalidInput) as refused:
        evaluate("small", right, prompt="stern")
    assert "system" in (refused.value.cure or "")


def test_examples_reach_a_function_that_takes_them_and_no_other() -> None:
    seen: list[tuple[str, tuple[Example, ...]]] = []

    def takes(prompt: str, _images: list[bytes], *, examples: tuple[Example, ...] = ()) -> str:
        seen.append((prompt, examples))
        return examples[0].answer

    evaluation = evaluate("digits", takes, prompt="digits-examples", limit=3)
    assert len(seen) == 3
    [shown] = {examples for _, examples in seen}
    assert len(shown) == 2
    assert all(example.answer and example.images[0][:4] == b"\x89PNG" for example in shown)
    assert {example.images for example in shown}.isdisjoint({(image,) for image in _pages("digits", limit=3)})
    [other] = [evaluate("digits", takes, limit=3, prompt="digits-examples")]
    assert other.summary.described[0].evaluation_id == evaluation.summary.described[0].evaluation_id
    plain = evaluate("digits", lambda prompt, images: "", limit=3)
    assert plain.summary.described[0].evaluation_id != evaluation.summary.described[0].evaluation_id
    with pytest.raises(InvalidInput) as refused:
        evaluate("digits", right, prompt="digits-examples", limit=3)
    assert "examples" in (refused.value.cure or "")


def _pages(task: str, *, limit: int) -> list[bytes]:
    pages: list[bytes] = []

    def collects(_prompt: str, images: list[bytes]) -> str:
        pages.extend(images)
        return ""

    evaluate(task, collects, limit=limit)
    return pages


def test_images_are_given_as_their_bytes() -> None:
    sizes = []

    def looks(_prompt: str, images: list[bytes]) -> str:
        sizes.extend(image[:4] for image in images)
        return "receipt"

    evaluate("document-kind", looks, limit=3)
    assert sizes == [b"\x89PNG"] * 3


def test_progress_is_told_after_each_call() -> None:
    told = []
    evaluate("small", right, progress=lambda done, total: told.append((done, total)))
    assert told == [(1, 3), (2, 3), (3, 3)]


@pytest.mark.parametrize(
    ("task", "choices"),
    [
        pytest.param("smal", {}, id="no such task"),
        pytest.param("small", {"metrics": ["exact_matc"]}, id="no such metric"),
        pytest.param("small", {"prompt": "nobody"}, id="no such prompt"),
        pytest.param("small", {"dataset": "nobody"}, id="no such dataset"),
        pytest.param("small", {"limit": 0}, id="no sample"),
        pytest.param("small", {"concurrency": 0}, id="no call"),
        pytest.param("small", {"on_invalid": "maybe"}, id="no such policy"),
    ],
)
def test_a_wrong_argument_is_refused_before_the_function_is_called(task: str, choices: dict[str, object]) -> None:
    def never(_prompt: str, _images: list[bytes]) -> str:
        raise AssertionError

    with pytest.raises(VlmHyperBenchError):
        evaluate(task, never, **choices)  # type: ignore[arg-type]  # that is what is tested


def test_two_evaluations_are_paired_by_sample_and_a_file_stands_for_one(tmp_path: Path) -> None:
    better, worse = evaluate("small", right), evaluate("small", lambda prompt, images: "2", name="always two")
    comparison = worse.compare(better)
    assert comparison.metrics["exact_match"].difference == pytest.approx(-2 / 3)
    better.report(tmp_path / "report")
    again = worse.compare(tmp_path / "report" / "samples.parquet")
    assert again.metrics["exact_match"].difference == pytest.approx(-2 / 3)
    with pytest.raises(InvalidInput):
        worse.compare(tmp_path / "nothing.parquet")


def test_the_report_says_that_a_function_answered(tmp_path: Path) -> None:
    evaluation = evaluate("small", right, name="my <b>reader</b>")
    page = evaluation.report(tmp_path / "report")
    assert page == tmp_path / "report" / "report.html"
    text = page.read_text()
    assert "a Python function" in text
    assert "my <b>reader" not in text
    report = json.loads((tmp_path / "report" / "report.json").read_text())
    assert report["headline"]["rows"][0]["metrics"]["exact_match"]["value"] == 1.0
    assert evaluation.report(tmp_path / "one" / "page.html").read_text() == text
    names = {"report.md", "summary.json", "manifest.json", "samples.parquet", "answers.csv", "metrics_summary.csv"}
    assert names <= {file.name for file in (tmp_path / "report").iterdir()}


def test_a_notebook_shows_the_scores_and_names_from_outside_are_text() -> None:
    def fails(_prompt: str, _images: list[bytes]) -> str:
        raise ValueError("<script>")

    shown = evaluate("small", fails, name="<i>f</i>")._repr_html_()
    assert "<table>" in shown
    assert "Exact match" in shown
    assert "<script>" not in shown
    assert "<i>" not in shown


def test_outside_of_a_notebook_the_scores_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    evaluation = evaluate("small", right)
    evaluation.show()
    assert capsys.readouterr().out.splitlines()[0] == f"{evaluation.name} on small: 3 of 3"


def test_groups_that_there_are_not_are_refused_by_name() -> None:
    with pytest.raises(NotFound):
        evaluate("small", right).metrics(by="question_typ")


def test_the_rows_have_the_columns_of_a_run_s_facts() -> None:
    from vlmhyperbench.db.fact_rows import FACT_COLUMNS

    chunk = polars_schema()
    assert {name: kind for name, kind in COLUMNS.items() if name in FACT_COLUMNS} == FACT_COLUMNS
    own = polars_schema({name: kind for name, kind in COLUMNS.items() if name not in FACT_COLUMNS})
    assert own.items() <= polars.Schema({name: chunk[name] for name in (*PAYLOAD_COLUMNS, "system_prompt")}).items()


def test_every_form_of_the_report_says_which_samples_were_taken_and_what_was_done_to_images(tmp_path: Path) -> None:
    chosen: JsonObject = {
        "name": "synthetic-documents",
        "where": ["question_type!=kind"],
        "sampling": {"size": 4, "seed": 7, "by": ["doc_class"], "allocation": "equal"},
        "preprocess": [{"step": "resize", "max_side": 64}, {"step": "greyscale"}],
    }
    page = evaluate("document-qa", lambda prompt, images: "x", dataset=chosen, limit=3).report(tmp_path / "report")
    taken = "question_type!=kind; 4 drawn by doc_class, equal with seed 7; the first 3 samples"
    images = "longer side scaled down to 64 px, then made grey"
    document = json.loads((page.parent / "report.json").read_text())
    [provenance] = [section for section in document["sections"] if section["name"] == "provenance"]
    items = dict(provenance["blocks"][0]["items"])
    assert (items["samples taken"], items["images"]) == (taken, images)
    for name in ("report.html", "report.md"):
        text = (page.parent / name).read_text().replace("\\", "")
        assert text.count(taken) == text.count(images) == 2  # in the configuration, too


def test_a_report_says_that_all_samples_were_taken_as_they_are(tmp_path: Path) -> None:
    text = (evaluate("small", right).report(tmp_path / "report").parent / "report.md").read_text()
    assert "samples taken" in text
    assert "unchanged" in text
