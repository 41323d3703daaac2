"""Answers of other tools, through every service: scored as our own, with the file's scores beside ours."""

import json

import pytest

from tests.support.audit import audit
from vlmhyperbench.cli import exits
from vlmhyperbench.cli.main import main
from vlmhyperbench.client.call import Call
from vlmhyperbench.errors import InvalidInput, NotFound
from vlmhyperbench.exchange.answers import AnswersFile, ImportedAnswer, write_answers
from vlmhyperbench.registry.schemas import RunEntry
from vlmhyperbench.wire.answers import RunImport

ANSWERS = [
    ImportedAnswer(key="a", question="2 + 2?", references=("4",), text="4", reported={"acc": 1.0}, completion_tokens=1),
    ImportedAnswer(key="b", question="2 + 3?", references=("5",), text=" 5.", reported={"acc": 1.0}),
    ImportedAnswer(key="c", question="2 + 4?", references=("6",), text="7", reported={"acc": 0.0}),
    ImportedAnswer(key="d", question="2 + 5?", references=("7",), error="timed out"),
    ImportedAnswer(key="a", repeat=1, text="four", reported={"acc": 0.0}),
]


def report_of(stack, run):
    """Return the report of a run and the summary of the run in it."""
    files = {file.name: file.id for file in stack.client.artifacts(run_id=run.id).items}
    report = json.loads(stack.client.artifact_content(files["report.json"]))
    return report, report["runs"][str(run.id)]


@pytest.fixture
def send(stack, tmp_path):
    """Send answers in the neutral form and return what the API says of them."""

    def sent(*answers):
        path = tmp_path / "answers.jsonl"
        header = {"format": "lm-eval", "tool": None, "model": "other", "task": None, "decoding": {"temperature": 0.7}}
        write_answers(path, AnswersFile(answers=iter(answers), **header))
        return stack.client.upload_answers(path.read_bytes())

    return sent


def test_imported_answers_are_scored_as_our_own_with_the_files_scores_beside(stack, send, wording):
    found = send(*ANSWERS)
    assert (found.answers, found.samples, found.repeats, found.referenced, found.reported) == (5, 4, 2, 4, ["acc"])
    choices = RunImport(answers=found.sha256, metrics=("exact_match", "anls"))
    run = stack.wait(stack.client.runs.import_(choices).id)
    assert (run.state, run.total, run.done, run.failed, run.target) == ("PARTIAL", 8, 8, 4, "other")
    assert {job.kind for job in run.jobs} == {"INDEX", "IMPORT", "SCORE", "REPORT"}
    results = stack.client.results(run_id=run.id, limit=50).items
    values = {
        (result.key, result.repeat): {measure.metric: measure.value for measure in result.measures}
        for result in results
        if result.status == "ok"
    }
    assert values == {
        ("a", 0): {"exact_match": 1.0, "anls": 1.0, "reported acc": 1.0},
        ("b", 0): {"exact_match": 0.0, "anls": 0.0, "reported acc": 1.0},
        ("c", 0): {"exact_match": 0.0, "anls": 0.0, "reported acc": 0.0},
        ("a", 1): {"exact_match": 0.0, "anls": 0.0, "reported acc": 0.0},
    }
    reasons = {(result.key, result.repeat): result.error_code for result in results if result.status != "ok"}
    assert reasons == {
        ("d", 0): "failed_in_file",
        ("b", 1): "not_in_file",
        ("c", 1): "not_in_file",
        ("d", 1): "not_in_file",
    }
    assert stack.query("SELECT DISTINCT origin FROM fact WHERE run_id = %s", run.id) == [("imported",)]
    report, summary = report_of(stack, run)
    (reported,) = [section for section in report["sections"] if section["name"] == "reported"]
    wording(reported["lead"])
    assert summary["performance"]["times"] == {}
    audit(stack)


def test_an_imported_run_is_scored_anew_with_the_files_scores(stack, send):
    found = send(*ANSWERS[:3])
    parent = stack.wait(stack.client.runs.import_(RunImport(answers=found.sha256, metrics=("anls",))).id)
    child = stack.wait(stack.client.runs.rescore(parent.id).id)
    assert child.state == "SUCCEEDED"
    measured = stack.client.results(run_id=child.id, limit=1).items[0].measures
    assert [measure.metric for measure in measured] == ["anls", "reported acc"]


def test_answers_are_matched_with_a_datasets_samples_by_their_keys(stack, send, wording):
    dataset = {"name": "synthetic-questions", "limit": 3}
    own = stack.client.runs.create(
        run={"target": {"model": "simulated-instant"}, "task": "synthetic-questions", "dataset": dataset}
    )
    keys = [result.key for result in stack.client.results(run_id=stack.wait(own.id).id, limit=10).items]
    found = send(*(ImportedAnswer(key=key, text="42") for key in [*keys, "beyond"]))
    choices = RunImport.model_validate({"answers": found.sha256, "task": "synthetic-questions", "dataset": dataset})
    run = stack.wait(stack.client.runs.import_(choices).id)
    assert (run.state, run.total, run.failed) == ("SUCCEEDED", 3, 0)
    (job,) = [job for job in run.jobs if job.kind == "IMPORT"]
    assert job.outcome["data"]["answers_of_no_sample"] == 1
    strangers = send(*(ImportedAnswer(key=f"x{no}", text="42") for no in range(2)))
    choices = choices.model_copy(update={"answers": strangers.sha256})
    run = stack.wait(stack.client.runs.import_(choices).id)
    assert run.state == "FAILED"
    wording(run.reason)


def test_answers_to_other_samples_with_the_same_keys_are_refused_or_counted(stack, send, wording):
    dataset = {"name": "synthetic-questions", "limit": 3}
    created = stack.client.runs.create(
        RunEntry.model_validate(
            {"target": {"model": "simulated-instant"}, "task": "synthetic-questions", "dataset": dataset}
        )
    )
    samples = stack.client.results(run_id=stack.wait(created.id).id, limit=10).items
    wrong = [ImportedAnswer(key=result.key, text="x", references=("nothing like it",)) for result in samples]
    right = ImportedAnswer(
        key=samples[0].key, text="x", references=tuple(reference.upper() for reference in samples[0].references)
    )

    def imported(*answers):
        found = send(*answers)
        body = {"answers": found.sha256, "task": "synthetic-questions", "dataset": dataset}
        return stack.wait(stack.client.runs.import_(RunImport.model_validate(body)).id)

    run = imported(*wrong)
    assert run.state == "FAILED"
    wording(run.reason)
    run = imported(right, *wrong[1:], ImportedAnswer(key="beyond", text="x"))
    assert run.state == "SUCCEEDED"
    _, summary = report_of(stack, run)
    assert (summary["left_out"], summary["differing"]) == (1, 2)


def test_metadata_of_an_imported_sample_is_no_reported_score(stack, send):
    found = send(
        ImportedAnswer(key="a", references=("4",), text="4", reported={"acc": 1.0}),
        ImportedAnswer(key="b", references=("5",), text="5", metadata={"reported": {"acc": 99}}),
    )
    run = stack.wait(stack.client.runs.import_(RunImport(answers=found.sha256, metrics=("anls",))).id)
    values = {
        result.key: {measure.metric: measure.value for measure in result.measures}
        for result in stack.client.results(run_id=run.id, limit=5).items
    }
    assert values == {"a": {"anls": 1.0, "reported acc": 1.0}, "b": {"anls": 1.0, "reported acc": None}}


def test_what_cannot_be_imported_is_refused(stack, send, wording):
    without_references = send(ImportedAnswer(key="a", text="4")).sha256
    for chosen in (
        RunImport(answers=without_references, metrics=("anls",)),
        RunImport(answers=send(*ANSWERS).sha256),
        RunImport(answers="0" * 64, metrics=("anls",)),
    ):
        with pytest.raises(InvalidInput) as refused:
            stack.client.runs.import_(chosen)
        wording(refused.value)
    with pytest.raises(NotFound):
        stack.client.send(Call(method="GET", path=f"/answers/{'0' * 64}", read=json.loads))


@pytest.mark.parametrize(
    "content", [b"", b'{"schema": "other"}\n', b"\xff\n"], ids=["empty", "another schema", "no text"]
)
def test_a_file_that_is_none_is_refused_with_its_line(stack, content, wording):
    with pytest.raises(InvalidInput) as refused:
        stack.client.upload_answers(content)
    wording(refused.value)


@pytest.mark.parametrize(
    "lines",
    [
        [],
        [{"key": "a"}, {"key": "a"}],
        [{"key": "a", "txt": "x"}],
        [{"key": "a", "repeat": 64}],
        [{"key": "a", "reported": {"acc": "1"}}],
    ],
    ids=["none", "a key twice", "an unknown field", "too many repeats", "a score that is a text"],
)
def test_a_wrong_line_is_named(stack, lines, wording):
    header = dict.fromkeys(("tool", "model", "task")) | {"format": "lm-eval", "decoding": {}}
    rows = [{"schema": "vlmhb/answers/v1", **header}, *({"text": "4", **line} for line in lines)]
    with pytest.raises(InvalidInput) as refused:
        stack.client.upload_answers("".join(json.dumps(row) + "\n" for row in rows).encode())
    wording(refused.value)


@pytest.fixture(scope="module")
def own(stack):
    entry = {
        "target": {"model": "simulated-instant"},
        "task": "synthetic-questions",
        "dataset": {"name": "synthetic-questions", "limit": 20},
        "metrics": ["exact_match", "anls"],
    }
    run = stack.wait(stack.client.runs.create(RunEntry.model_validate(entry)).id)
    assert run.state == "SUCCEEDED"
    return run


@pytest.mark.parametrize(
    ("format_", "name"), [("jsonl", "*.jsonl"), ("lm-eval", "**/samples_*"), ("inspect", "*.eval")]
)
def test_a_run_that_goes_out_and_comes_back_has_the_same_scores(
    stack, own, tmp_path, monkeypatch, capsys, format_, name
):
    monkeypatch.setenv("VLMHB_API_URL", stack.home.api_url())
    monkeypatch.setenv("VLMHB_API_KEY", stack.home.api_key())
    assert main(["export", str(own.id), "--format", format_, "--out", str(tmp_path), "--quiet"]) == exits.OK
    (path,) = tmp_path.glob(name)
    capsys.readouterr()
    chosen = ["--metric", "exact_match", "--metric", "anls", "--name", f"back {format_}"]
    if format_ == "lm-eval":  # whose samples do not say who answered
        chosen += ["--model", own.target]
    assert main(["import", str(path), *chosen, "--quiet"]) == exits.OK
    (back,) = [run for run in stack.client.runs.list(limit=50).items if run.name == f"back {format_}"]
    assert (back.state, back.total, back.target) == ("SUCCEEDED", 20, own.target)
    before, after = (
        {
            result.key: {measure.metric: measure.value for measure in result.measures}
            for result in stack.client.results(run_id=run.id, limit=50).items
        }
        for run in (own, back)
    )
    assert before.keys() == after.keys()
    for key, scores in before.items():
        assert {metric: after[key][metric] for metric in scores} == scores
        assert after[key]["reported exact_match"] == scores["exact_match"]


@pytest.mark.parametrize("format_", ["csv", "parquet"])
def test_a_table_of_ours_comes_back_beside_the_samples_that_its_run_asked(
    stack, own, tmp_path, monkeypatch, capsys, format_
):
    monkeypatch.setenv("VLMHB_API_URL", stack.home.api_url())
    monkeypatch.setenv("VLMHB_API_KEY", stack.home.api_key())
    file = tmp_path / f"answers.{format_}"
    assert main(["export", str(own.id), "--format", format_, "--out", str(file), "--quiet"]) == exits.OK
    name = f"back {format_}"
    chosen = ["--task", "synthetic-questions", "--dataset", "synthetic-questions", "--limit", "20", "--name", name]
    assert main(["import", str(file), *chosen, "--metric", "exact_match", "--quiet"]) == exits.OK
    (back,) = [run for run in stack.client.runs.list(limit=50).items if run.name == name]
    assert (back.state, back.total, back.failed) == ("SUCCEEDED", 20, 0)
    (score,) = [score for score in back.headline.scores if score.metric.startswith("exact_match")]
    (before,) = [score for score in own.headline.scores if score.metric.startswith("exact_match")]
    assert (score.value, score.n) == (before.value, before.n)
    assert main(["import", str(file), "--limit", "20", "--metric", "exact_match"]) == exits.USAGE
    assert "--dataset" in capsys.readouterr().err
