"""The main job through every service: POST a run, get a report, and know every sample exactly once."""

import json
import os
import re
import stat
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support.audit import audit
from vlmhyperbench.errors import InvalidInput, VlmHyperBenchError
from vlmhyperbench.registry.schemas import ExperimentEntry, RunEntry

BROKEN = """data_index;split;image_path;question;answer;doc_class;question_type;answer_bbox
0;test;;What is 1 + 1?;2;sum;text;
1;test;bad.png;What is it?;x;sum;text;
2;test;;What is 2 + 2?;4;sum;text;
"""


TYPED = {"name": "documents-schemas", "params": {"documents": 9, "schemas": ["typed"]}}
"""Documents as JSON in the one form whose schemas llama.cpp enforces whole."""
KINDS = "(invoice|receipt|letter), [0-9]{2}"


@pytest.fixture(scope="module")
def registries(registries, tmp_path_factory):
    """Add a dataset one of whose images is none."""
    folder = tmp_path_factory.mktemp("broken")
    (folder / "bad.png").write_bytes(b"this is no image")
    (folder / "annotation.csv").write_text(BROKEN)
    (registries / "datasets" / "broken-images.yaml").write_text(f"type: annotation_csv\npath: {folder}\n")
    return registries


def questions(limit):
    return {"name": "synthetic-questions", "limit": limit}


def entry(**changes):
    given = {"target": {"model": "simulated-instant"}, "task": "synthetic-questions", "dataset": questions(60)}
    return RunEntry.model_validate({**given, **changes})


def content(stack, run_id, name):
    found = [item for item in stack.client.artifacts(run_id=run_id).items if item.name == name]
    assert found, f"{name} is missing"
    return stack.client.artifact_content(found[0].id)


def test_a_run_goes_through_every_service_and_ends_with_its_report(stack):
    run = stack.wait(stack.client.runs.create("simulated-instant").id)
    assert run.state == "SUCCEEDED"
    assert (run.total, run.done, run.failed) == (1000, 1000, 0)
    assert {job.kind for job in run.jobs} == {"INDEX", "GENERATE", "SCORE", "REPORT"}
    assert stack.rows(run.id) == 1000
    report = json.loads(content(stack, run.id, "report.json"))
    assert report["headline"]["rows"][0]["samples"] == 1000
    assert b"<html" in content(stack, run.id, "report.html")
    assert content(stack, run.id, "answers.csv").count(b"\n") >= 1001
    audit(stack)


def modes_of_files(folder):
    """Yield the files below a folder with their modes, without those that vanish meanwhile."""
    for place, _, names in os.walk(folder):
        for path in (Path(place, name) for name in names):
            with suppress(FileNotFoundError):
                mode = path.lstat().st_mode
                if stat.S_ISREG(mode):
                    yield path, mode


def test_what_a_stack_writes_only_its_owner_can_read(stack):
    assert stack.wait(stack.client.runs.create(entry(dataset=questions(5))).id).state == "SUCCEEDED"
    modes = dict(modes_of_files(stack.home.root))
    assert any(path.suffix == ".parquet" for path in modes)
    assert not [path for path, mode in modes.items() if mode & 0o077]


def test_the_tiny_model_really_reads_its_documents(stack):
    dataset = {"name": "synthetic-documents", "params": {"documents": 12}}
    run = stack.wait(
        stack.client.runs.create(
            RunEntry.model_validate({"target": {"model": "tiny-doc-vlm"}, "task": "document-qa", "dataset": dataset})
        ).id
    )
    assert run.state == "SUCCEEDED"
    results, cursor = [], None
    while True:
        page = stack.client.results(run_id=run.id, limit=50, cursor=cursor)
        results += page.items
        cursor = page.next
        if cursor is None:
            break
    assert len({result.key for result in results}) == run.total == len(results)
    right = sum(
        result.text.strip().casefold() in {ref.strip().casefold() for ref in result.references} for result in results
    )
    assert 0.75 < right / len(results) <= 1
    row = json.loads(content(stack, run.id, "report.json"))["headline"]["rows"][0]
    assert row["metrics"]["exact_match"]["value"] == pytest.approx(right / len(results), abs=0.02)
    engine = stack.query("SELECT engine FROM claim WHERE run_id = %s AND engine IS NOT NULL", run.id)[0][0]
    assert engine["name"] == "llama.cpp"
    assert len(engine["weights_sha256"]["weights"]) == 64
    audit(stack)


def test_the_runs_of_an_experiment_share_their_samples_and_end_in_one_comparison(stack):
    runs = [
        {**entry().model_dump(exclude_none=True), "target": {"model": name}}
        for name in ("simulated-instant", "simulated-flaky")
    ]
    experiment = stack.client.experiments.create(ExperimentEntry.model_validate({"runs": runs}))
    for run in experiment.runs:
        assert stack.wait(run.id).state == "SUCCEEDED"
    done = stack.wait_experiment(experiment.id)
    assert done.state == "DONE"
    assert len(stack.query("SELECT DISTINCT manifest_id FROM run WHERE experiment_id = %s", experiment.id)) == 1
    assert stack.query("SELECT count(*) FROM job WHERE experiment_id = %s AND kind = 'INDEX'", experiment.id)[0][0] == 1
    tries = stack.query("SELECT max(tries) FROM fact WHERE run_id = %s", done.runs[1].id)[0][0]
    assert tries == 2
    found = [item.name for item in stack.client.artifacts(experiment_id=experiment.id).items]
    assert "report.html" in found
    audit(stack)


def test_answers_follow_the_schema_of_their_own_sample_where_a_matrix_asks_for_it(stack):
    """The first version was never asked for JSON by a schema, so that none of its free answers follows one."""
    formats = ["text", "json_object", "json_schema", {"type": "regex", "regex": KINDS}]
    matrix = {"targets": [{"model": "tiny-doc-vlm"}], "tasks": ["documents-schemas"], "response_formats": formats}
    entry = {"matrix": matrix, "defaults": {"dataset": TYPED, "limit": 9, "decoding": {"max_tokens": 300}}}
    experiment = stack.client.experiments.create(ExperimentEntry.model_validate(entry))
    runs = [stack.wait(run.id) for run in experiment.runs]
    assert [run.name.split(" · ")[-1] for run in runs] == ["text", "json_object", "json_schema", "regex"]
    assert [run.state for run in runs] == ["SUCCEEDED"] * 4
    texts = [result.text for result in stack.client.results(run_id=runs[3].id, limit=100).items]
    assert len(texts) == 9
    assert all(re.fullmatch(KINDS, text) for text in texts)
    free, own = runs[0], runs[2]
    reports = [json.loads(content(stack, run.id, "report.json")) for run in (free, own)]
    strict = [report["headline"]["rows"][0]["metrics"]["structural_fidelity"]["value"] for report in reports]
    assert strict[0] < strict[1]
    stack.wait_experiment(experiment.id)
    compared = [
        item for item in stack.client.artifacts(experiment_id=experiment.id).items if item.name == "report.json"
    ]
    document = json.loads(stack.client.artifact_content(compared[0].id))
    assert "constrained" in {section["name"] for section in document["sections"]}


def test_a_schema_that_the_engine_cannot_enforce_whole_ends_its_run(stack):
    run = stack.client.runs.create(
        entry(
            target={"model": "tiny-doc-vlm"},
            task="documents-schemas",
            dataset={"name": "documents-schemas", "limit": 3, "params": {"documents": 3, "schemas": ["pairs"]}},
            response_format="json_schema",
        )
    )
    run = stack.wait(run.id)
    assert run.state == "FAILED"
    assert "uniqueItems" in run.reason


def test_a_timed_run_is_measured_by_one_claim(stack):
    run = stack.wait(stack.client.runs.create(entry(scenario={"name": "single-stream", "requests": 20})).id)
    assert run.state == "SUCCEEDED"
    assert stack.query("SELECT state, count FROM phase WHERE run_id = %s AND kind = 'single_stream'", run.id) == [
        ("COMPLETE", 20)
    ]
    overlaps = stack.query(
        "SELECT count(*) FROM fact a JOIN fact b "
        "ON a.run_id = b.run_id AND a.phase = b.phase AND a.ordinal < b.ordinal WHERE a.run_id = %s "
        "AND b.sent_ns < a.stream_end_ns AND a.sent_ns < b.stream_end_ns",
        run.id,
    )
    assert overlaps == [(0,)]
    audit(stack)


def test_an_image_that_is_no_image_costs_its_own_sample_only(stack):
    run = stack.wait(stack.client.runs.create(entry(dataset="broken-images")).id)
    assert run.state == "PARTIAL"
    assert (run.total, run.done, run.failed) == (3, 3, 1)
    rows = stack.query(
        "SELECT ordinal, status, failure, error_code FROM fact WHERE run_id = %s AND phase = 1 ORDER BY ordinal", run.id
    )
    assert [row[1] for row in rows] == ["ok", "error", "ok"]
    assert rows[1][2:] == ("infrastructure", "unreadable_sample")
    audit(stack)


def test_a_key_that_repeats_gives_the_same_run(stack):
    first = stack.client.runs.create(entry(dataset=questions(5)), idempotency_key="again")
    assert stack.client.runs.create(entry(dataset=questions(5)), idempotency_key="again").id == first.id
    with pytest.raises(VlmHyperBenchError, match=r"[Kk]ey"):
        stack.client.runs.create(entry(dataset=questions(6)), idempotency_key="again")
    stack.wait(first.id)


def test_unknown_names_are_refused_together_with_the_nearest_ones(stack):
    with pytest.raises(InvalidInput) as refused:
        stack.client.runs.create(entry(target={"model": "simulated-instnt"}, task="synthetic-question"))
    text = " ".join(f"{error.message} {error.cure}" for error in refused.value.errors)
    assert "simulated-instant" in text
    assert "synthetic-questions" in text


def test_examples_of_another_split_stand_before_every_question_and_are_kept_with_the_run(stack):
    asked = entry(task="digits", dataset={"name": "digits", "limit": 4}, prompt="digits-examples")
    run = stack.wait(stack.client.runs.create(asked).id)
    assert (run.state, run.done) == ("SUCCEEDED", 4)
    samples = [stack.client.runs.sample(run.id, row.id) for row in stack.client.runs.samples(run.id).items]
    shown = {tuple((example.key, example.answer) for example in sample.examples) for sample in samples}
    assert len(samples) == 4
    assert [len(examples) for examples in shown] == [2]
    assert {example.user_prompt for example in samples[0].examples} == {samples[0].user_prompt}
    keys = {sample.result.key for sample in samples}
    assert not keys & {key for key, _ in next(iter(shown))}
    for example in samples[0].examples:
        assert stack.client.image(run.id, example.images[0]).startswith(b"\x89PNG")
    kept = stack.client.runs.manifest(run.id).example_manifest
    assert kept is not None
    assert json.loads(content(stack, run.id, "manifest.json"))["example_manifest"] == kept
    rescored = stack.wait(stack.client.runs.rescore(run.id).id)
    assert stack.client.runs.manifest(rescored.id).example_manifest == kept
