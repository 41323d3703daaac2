"""A pipeline's models are loaded as its execution mode says; what does not fit is refused with a table."""

import json
import shutil
from pathlib import Path

import pytest

from vlmhyperbench.folders import file_sha256
from vlmhyperbench.registry.schemas import RunEntry
from vlmhyperbench_tiny_doc_vlm import path

HUGE = {"n_ctx": 1_000_000, "parallel": 256}
"""A cache of hundreds of GiB, which nobody allocates."""
READERS = ("reader-a", "reader-b")


@pytest.fixture(scope="module")
def registries(registries, tmp_path_factory):
    """Add two real models in files of their own, and pipelines of them."""
    weights = tmp_path_factory.mktemp("weights")
    for name, file in zip(READERS, ("tiny-doc-vlm-q8_0.gguf", "tiny-doc-vlm-q4_0.gguf"), strict=True):
        shutil.copy(path(file, "0.2"), weights / f"{name}.gguf")
        entry = {
            "description": "For tests.",
            "backends": ["llamacpp"],
            "path": str(weights),
            "files": {"weights": f"{name}.gguf"},
            "sha256": {"weights": file_sha256(weights / f"{name}.gguf")},
            "engine_params": {"n_ctx": 1024, "parallel": 1, "threads": 1},
        }
        (registries / "models" / f"{name}.yaml").write_text(json.dumps(entry))
    (registries / "pipelines").mkdir(exist_ok=True)
    for name, mode, params, optional in (
        ("together", "auto", {}, False),
        ("one-by-one", "sequential", {}, False),
        ("impossible", "persistent", HUGE, False),
        ("does-without", "auto", {}, True),
    ):
        second = {"model": READERS[1], "engine_params": params, "optional": optional}
        stage = {
            "id": "read",
            "type": "multi",
            "models": [READERS[0], second],
            "aggregation": {"type": "concat"},
            "images": False,
        }
        written = {"description": "For tests.", "execution_mode": mode, "stages": [stage]}
        (registries / "pipelines" / f"{name}.yaml").write_text(json.dumps(written))
    return registries


def submitted(stack, pipeline, **changes):
    entry = {
        "target": {"pipeline": pipeline},
        "task": "synthetic-questions",
        "dataset": {"name": "synthetic-questions", "limit": 4},
        "decoding": {"max_tokens": 4},
        "metrics": ["exact_match"],
        "reports": ["json"],
    }
    return stack.client.runs.create(RunEntry.model_validate({**entry, **changes}))


def finished(stack, pipeline, **changes):
    return stack.wait_without_pauses(submitted(stack, pipeline, **changes).id)


def executions(stack, run):
    return [engine.execution for engine in stack.client.runs.manifest(str(run.id)).engines]


def test_the_manifest_says_which_mode_was_taken_and_why(stack):
    together, apart = finished(stack, "together"), finished(stack, "one-by-one")
    assert (together.state, apart.state) == ("SUCCEEDED", "SUCCEEDED"), (together.reason, apart.reason, stack.logs())
    for each in executions(stack, together):
        assert (each["asked"], each["mode"]) == ("auto", "persistent")
        assert 0 < each["need_bytes"] <= each["have_bytes"]
    assert {(each["asked"], each["mode"]) for each in executions(stack, apart)} == {("sequential", "sequential")}
    told = stack.query(
        "SELECT c.resources FROM claim c JOIN job j ON j.id = c.job_id WHERE j.run_id = %s AND j.kind = 'MEMBER'",
        apart.id,
    )
    assert len(told) == 2
    assert all(row[0]["memory_held_bytes"] > 0 and row[0]["memory_back_bytes"] >= 0 for row in told)


def test_models_that_cannot_stay_loaded_together_are_refused_with_the_table(stack, command):
    run = finished(stack, "impossible")
    assert run.state == "FAILED"
    (shortage,) = stack.client.runs.get(run.id).shortages
    (row,) = shortage.rows
    assert (shortage.model, row.memory) == ("impossible", "machine")
    assert row.need_bytes - row.have_bytes == row.shortfall_bytes > 0
    assert [(knob.name, knob.fixes) for knob in shortage.knobs] == [("execution_mode", True)]
    shown = command("show", str(run.id))
    assert shown["shortages"][0]["rows"][0]["shortfall_bytes"] == row.shortfall_bytes


@pytest.fixture
def removed(registries):
    """The file of one model, removed for a test."""
    entry = json.loads((registries / "models" / f"{READERS[1]}.yaml").read_text())
    file = Path(entry["path"], f"{READERS[1]}.gguf")
    kept = file.read_bytes()
    file.unlink()
    yield file
    file.write_bytes(kept)


@pytest.mark.usefixtures("removed")
def test_an_optional_model_whose_file_is_removed_is_left_out_with_a_warning_that_the_run_keeps(stack):
    created = submitted(stack, "does-without")
    assert len(created.warnings) == 1
    assert READERS[1] in created.warnings[0]
    run = stack.wait_without_pauses(created.id)
    assert run.state == "SUCCEEDED", (run.reason, stack.logs())
    (stage,) = stack.client.runs.get(run.id).spec.target.stages
    assert [each.name for each in stage.dropped] == [READERS[1]]
    assert len(executions(stack, run)) == 1
