"""What a run really used is on record, with its origins; and a run that needs a certificate is refused without one."""

import json
import os
import sys
from importlib.metadata import version

import pytest

from tests.support.stack import running_stack
from tests.support.wording import Wording
from vlmhyperbench.registry.schemas import RunEntry

CERTIFIED = "default_backend_class: simulated\nrequires_certificate: [text, reload]\n"
MODEL = "backends: [certified]\nengine_params: {ttft_ms: 0, gap_ms: 0, tokens: 8, context_tokens: 4096}\n"


@pytest.fixture(scope="module")
def registries(registries):
    """Add a backend that requires a certificate."""
    (registries / "backends" / "certified.yaml").write_text(CERTIFIED)
    (registries / "models" / "certified.yaml").write_text(MODEL)
    return registries


@pytest.fixture(scope="module")
def stack(registries):
    with running_stack(registries) as found:
        yield found


def ask(stack, model, **choices):
    target = {"model": model, **choices.pop("target", {})}
    entry = {"target": target, "task": "synthetic-questions", "limit": 4, **choices}
    origins = {"limit": "--limit"}
    run = stack.client.runs.create(RunEntry.model_validate(entry), origins=origins)
    return stack.wait(run.id)


@pytest.fixture(scope="module")
def run(stack):
    ended = ask(stack, "tiny-doc-vlm", target={"engine_params": {"n_ctx": 512}}, task="document-qa")
    assert (ended.state, ended.failed) == ("SUCCEEDED", 0), stack.logs()
    return ended


def test_the_manifest_names_weights_engine_environment_and_machine(stack, run):
    manifest = stack.client.runs.manifest(run.id)
    assert (manifest.run_id, manifest.spec_digest) == (run.id, run.spec_digest)
    assert (manifest.target["license"], manifest.target["quantization"]) == ("Apache-2.0", "F16")
    assert {(file.file, file.is_confirmed) for file in manifest.weights} == {("weights", True), ("mmproj", True)}
    [used] = manifest.engines
    assert (used.engine["name"], used.engine["version"]) == ("llama.cpp", version("xllamacpp"))
    assert used.engine["argv"][0] == sys.executable
    assert used.environment["kind"] == "platform"
    assert len(used.environment["key"]) == 16
    assert used.certificate is None
    assert used.machine["kernel"] == os.uname().release
    assert {"driver", "cuda", "distribution", "cpu_model", "devices"} <= set(used.machine)
    jobs = {job for workers in manifest.workers for job in workers.jobs}
    assert jobs == {"INDEX", "GENERATE", "SCORE", "REPORT"}
    assert all(workers.packages["vlmhyperbench"] == version("vlmhyperbench") for workers in manifest.workers)
    distribution = f"vlmhyperbench-text-metrics {version('vlmhyperbench-text-metrics')}"
    assert manifest.plugins["metrics"]["exact_match@v1"] == distribution


def test_the_manifest_says_where_every_value_was_written(stack, run):
    values = stack.client.runs.manifest(run.id).configuration
    assert (values["dataset.limit"].value, values["dataset.limit"].origin) == (4, "--limit")
    assert (values["target.engine_params.n_ctx"].value, values["target.engine_params.n_ctx"].origin) == (
        512,
        "submission",
    )
    assert values["target.license"].origin.startswith("models/tiny-doc-vlm.yaml:")
    assert values["decoding.max_tokens"].origin.startswith("tasks/document-qa.yaml:")
    assert values["decoding.top_k"].origin == "default"
    assert "not recorded" not in {value.origin for value in values.values()}


def test_the_report_has_the_manifest_as_an_artifact(stack, run):
    [file] = [file for file in stack.client.report(run.id).files if file.kind == "manifest"]
    stored = json.loads(stack.client.artifact_content(file.id))
    live = stack.client.runs.manifest(run.id).model_dump(mode="json", by_alias=True)
    # The claim of the REPORT job ends with the report; everything else was recorded before.
    assert stored == live


def test_show_prints_the_manifest(program, run):
    done = program("show", str(run.id), "--manifest")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["data"]["engines"][0]["engine"]["name"] == "llama.cpp"


def test_a_run_is_refused_without_the_certificate_that_its_backend_requires(stack, program, wording: Wording):
    refused = ask(stack, "certified")
    assert refused.state == "FAILED"
    [job] = [job for job in refused.jobs if job.kind == "GENERATE"]
    assert (job.outcome["code"], job.fails) == ("not_certified", 1)
    assert "vlmhyperbench envs check certified" in job.outcome["message"]
    checked = program("envs", "check", "certified", "--no-baseline", "--quiet")
    assert checked.returncode == 0, checked.stdout + checked.stderr
    [certificate] = json.loads(checked.stdout)["data"]
    accepted = ask(stack, "certified")
    assert accepted.state == "SUCCEEDED"
    [used] = stack.client.runs.manifest(accepted.id).engines
    assert used.certificate["created_at"] == certificate["conformance"]["created_at"]
    assert used.certificate["file"].startswith("certified-")
    assert used.environment["key"] == certificate["subject"]["environment"]
