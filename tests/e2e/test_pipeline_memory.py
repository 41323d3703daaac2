"""Models are loaded as their pipeline and their memory allow; what does not fit is refused with a table."""

import json
import shutil
import threading
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest
from PIL import Image

from tests.support.audit import audit
from vlmhyperbench.folders import file_sha256
from vlmhyperbench.registry.schemas import RunEntry
from vlmhyperbench_tiny_doc_vlm import path

HUGE = {"n_ctx": 1_000_000, "parallel": 256}
"""A cache of hundreds of GiB, which nobody allocates."""
READERS = ("reader-a", "reader-b")
LARGE = {"n_ctx": 524_288}
"""A cache of 450 MiB: whether it comes back shows beside what other processes of the machine take meanwhile."""
LARGE_BYTES = 400 * 2**20
TIGHT = {"n_ctx": 1024, "parallel": 1, "threads": 1, "n_ubatch": 64, "n_batch": 64}
"""Nothing of it can be made smaller without a loss, for a task of as many tokens."""
SMALL_PAGES, LARGE_PAGES = 6, 1
LARGE_SIDE = 7000
OUT_OF_MEMORY_BYTES = 240 * 2**20
"""With between 190 and 290 MiB more a page of this size is decoded, and its copies do not fit, which llama.cpp says.

With less it calls the page no image, with nearly nothing it aborts in some thread without a word.
"""


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
    shutil.copy(path("tiny-doc-vlm-mmproj-f16.gguf", "0.2"), weights / "mmproj.gguf")
    for name in ("sees", "sees-too"):
        shutil.copy(path("tiny-doc-vlm-f16.gguf", "0.2"), weights / f"{name}.gguf")
        files = {"weights": f"{name}.gguf", "mmproj": "mmproj.gguf"}
        entry = {
            "description": "For tests.",
            "backends": ["llamacpp"],
            "path": str(weights),
            "files": files,
            "sha256": {role: file_sha256(weights / file) for role, file in files.items()},
            "engine_params": TIGHT,
        }
        (registries / "models" / f"{name}.yaml").write_text(json.dumps(entry))
    pages = weights / "pages.csv"
    lines = ["id,image,question,answer"]
    for no in range(SMALL_PAGES + LARGE_PAGES):
        page = Image.new("L", (256, 256)) if no < SMALL_PAGES else Image.new("L", (LARGE_SIDE, LARGE_SIDE))
        page.save(weights / f"{no}.png")
        lines.append(f"q{no},{no}.png,What is it?,white")
    pages.write_text("\n".join(lines) + "\n")
    table = {
        "type": "table",
        "path": str(pages),
        "params": {"columns": {"key": "id", "question": "question", "images": "image", "references": "answer"}},
    }
    (registries / "datasets" / "pages.yaml").write_text(json.dumps(table))
    (registries / "pipelines").mkdir(exist_ok=True)
    for name, mode, params, optional in (
        ("together", "auto", {}, False),
        ("one-by-one", "sequential", LARGE, False),
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
    held = sorted((row[0]["memory_held_bytes"], row[0]["memory_back_bytes"]) for row in told)
    assert len(held) == 2
    assert held[0][0] < LARGE_BYTES < held[1][0] < 2 * LARGE_BYTES
    assert held[1][1] > LARGE_BYTES / 2


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


@contextmanager
def removed(registries):
    """Remove the file of one model, and put it back."""
    entry = json.loads((registries / "models" / f"{READERS[1]}.yaml").read_text())
    file = Path(entry["path"], f"{READERS[1]}.gguf")
    kept = file.read_bytes()
    file.unlink()
    try:
        yield
    finally:
        file.write_bytes(kept)


def test_an_optional_model_whose_file_is_removed_is_left_out_with_a_warning_that_the_run_keeps(stack, registries):
    with removed(registries):
        created = submitted(stack, "does-without")
        assert len(created.warnings) == 1
        assert READERS[1] in created.warnings[0]
        run = stack.wait_without_pauses(created.id)
    assert run.state == "SUCCEEDED", (run.reason, stack.logs())
    (stage,) = stack.client.runs.get(run.id).spec.target.stages
    assert [each.name for each in stage.dropped] == [READERS[1]]
    assert len(executions(stack, run)) == 1


def test_an_optional_model_that_vanishes_between_check_and_load_is_dropped_and_the_others_answer(
    stack, command, registries
):
    (worker,) = (each for each in stack.client.workers().items if each.kind == "inference")
    command("workers", "drain", worker.queue, "--reason", "a file is moved")
    created = submitted(stack, "does-without")
    assert list(created.warnings) == []
    with removed(registries):
        command("workers", "resume", worker.queue)
        run = stack.wait_without_pauses(created.id)
    assert (run.state, run.done, run.failed) == ("PARTIAL", 4, 0), (run.reason, stack.logs())
    detail = stack.client.runs.get(run.id)
    failed = [job for job in detail.jobs if job.state == "FAILED"]
    assert [READERS[1] in json.dumps(job.model_dump(mode="json")) for job in failed] == [True]
    audit(stack)


def engines(weights):
    """Return the processes that have loaded a file of weights."""
    lines = ((process, process.info["cmdline"] or []) for process in psutil.process_iter(["cmdline"]))
    return [process for process, line in lines if any(part.endswith(f"/{weights}") for part in line)]


@contextmanager
def every_engine_limited(weights, limit):
    """Let no engine of a file have more data than that; one that starts is found long before its model is loaded."""
    is_over = threading.Event()

    def watch():
        while not is_over.wait(0.05):
            for process in engines(weights):
                with suppress(psutil.NoSuchProcess):
                    process.rlimit(psutil.RLIMIT_DATA, (limit, limit))

    watching = threading.Thread(target=watch)
    watching.start()
    try:
        yield
    finally:
        is_over.set()
        watching.join()


def test_a_run_that_runs_out_of_memory_on_the_next_rung_too_is_refused_with_the_table(stack, command):
    assert command("models", "load", "sees-too")["status"] == "loaded"
    (engine,) = engines("sees-too.gguf")
    with every_engine_limited("sees-too.gguf", engine.memory_info().data + OUT_OF_MEMORY_BYTES):
        run = finished(
            stack,
            None,
            target={"model": "sees-too"},
            dataset="pages",
            decoding={"max_tokens": 900},
            limits={"allow_lossy": True, "tries": 5},
        )
    assert run.state == "FAILED", (run.reason, stack.logs())
    claims = stack.query(
        "SELECT c.failure->>'code', c.environment->'fallbacks'->0->>'rung' FROM claim c JOIN job j ON j.id = c.job_id "
        "WHERE j.run_id = %s AND j.kind = 'GENERATE' ORDER BY c.started_at",
        run.id,
    )
    assert claims == [("oom", None), ("oom", "KV cache in q8_0"), ("does_not_fit", None)], claims
    (shortage,) = stack.client.runs.get(run.id).shortages
    assert (shortage.model, shortage.has_run_out) == ("sees-too", True)
    audit(stack)


def test_an_engine_that_runs_out_of_memory_while_it_answers_is_loaded_one_rung_lower_and_asked_the_rest(stack, command):
    assert command("models", "load", "sees")["status"] == "loaded"
    (engine,) = engines("sees.gguf")
    limit = engine.memory_info().data + OUT_OF_MEMORY_BYTES
    engine.rlimit(psutil.RLIMIT_DATA, (limit, limit))
    run = finished(
        stack,
        None,
        target={"model": "sees"},
        dataset="pages",
        decoding={"max_tokens": 900},
        limits={"allow_lossy": True},
    )
    assert (run.state, run.done, run.failed) == ("SUCCEEDED", SMALL_PAGES + LARGE_PAGES, 0), (run.reason, stack.logs())
    (ran_out, nothing), (failure, steps) = stack.query(
        "SELECT c.failure, c.environment->'fallbacks' FROM claim c JOIN job j ON j.id = c.job_id "
        "WHERE j.run_id = %s AND j.kind = 'GENERATE' ORDER BY c.started_at",
        run.id,
    )
    assert ran_out["code"] == "oom", ran_out
    assert (nothing, failure) == (None, None)
    assert [(step["rung"], step["is_lossy"]) for step in steps] == [("KV cache in q8_0", True)]
    answers = stack.client.results(run_id=run.id, limit=100).items
    assert sorted(answer.key for answer in answers) == [f"q{no}" for no in range(SMALL_PAGES + LARGE_PAGES)]
    assert stack.client.runs.get(run.id).is_degraded
    audit(stack)
