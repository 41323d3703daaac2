"""Images that a pipeline is asked about: what llama.cpp does not read is converted, what no model sees is refused."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from tests.support.audit import audit
from tests.support.stack import Stack
from vlmhyperbench.cli import exits
from vlmhyperbench.folders import file_sha256
from vlmhyperbench.registry.schemas import RunEntry
from vlmhyperbench.wire.runs import RunRerun
from vlmhyperbench_tiny_doc_vlm import path

FILES = {"weights": "tiny-doc-vlm-q8_0.gguf", "mmproj": "tiny-doc-vlm-mmproj-f16.gguf"}
QUESTION = "What is the total?"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with one page in several formats, all of the same pixels, and a table of questions."""
    folder = tmp_path_factory.mktemp("pages")
    page = Image.linear_gradient("L").resize((128, 128)).convert("RGB")
    for kind in ("png", "tiff", "gif", "bmp"):
        page.save(folder / f"page.{kind}")
    page.save(folder / "page.webp", lossless=True)
    lines = ["id,image,question,answer", *(f"q{no},page.webp,{QUESTION},none" for no in range(2))]
    (folder / "pages.csv").write_text("\n".join(lines) + "\n")
    return folder


@pytest.fixture(scope="module")
def registries(registries: Path, folder: Path) -> Path:
    """Add a model with its projector, one without, and one whose files are removed, and pipelines of them."""
    for name, roles in (("reads", ("weights", "mmproj")), ("blind", ("weights",)), ("gone", ("weights", "mmproj"))):
        own = folder / name
        own.mkdir()
        for role in roles:
            shutil.copy(path(FILES[role], "0.2"), own)
        entry = {
            "description": "For tests.",
            "backends": ["llamacpp"],
            "path": str(own),
            "files": {role: FILES[role] for role in roles},
            "sha256": {role: file_sha256(own / FILES[role]) for role in roles},
            "engine_params": {"n_ctx": 1024, "parallel": 1, "threads": 1},
        }
        (registries / "models" / f"{name}.yaml").write_text(json.dumps(entry))
    table = {
        "type": "table",
        "path": str(folder / "pages.csv"),
        "params": {"columns": {"key": "id", "question": "question", "images": "image", "references": "answer"}},
    }
    (registries / "datasets" / "pages.yaml").write_text(json.dumps(table))
    (registries / "pipelines").mkdir(exist_ok=True)
    joined = {"type": "multi", "models": ["gone", "blind"], "images": False, "aggregation": {"type": "concat"}}
    read = {"id": "answer", "type": "single", "model": "reads", "input_from": "read"}
    for name, stage, *later in (
        ("reader", {"type": "single", "model": "reads"}),
        ("reader-and-blind", {"type": "multi", "models": ["reads", "blind"], "aggregation": {"type": "concat"}}),
        ("joined", joined),
        ("joined-and-read", joined, read),
        ("voted", {**joined, "aggregation": {"type": "vote"}}),
        ("only-text", {"type": "single", "model": "blind", "images": False}),
    ):
        stages = [{"id": "read", "generation": {"max_tokens": 4}, **stage}, *later]
        written = {"description": "For tests.", "stages": stages}
        (registries / "pipelines" / f"{name}.yaml").write_text(json.dumps(written))
    return registries


def test_a_webp_is_answered_as_a_png_of_the_same_pixels(command: Callable[..., Any], folder: Path) -> None:
    answers = {
        command("pipeline", "ask", "reader", QUESTION, "--image", str(folder / f"page.{kind}"))["answer"]
        for kind in ("png", "webp")
    }
    assert len(answers) == 1
    assert None not in answers


@pytest.mark.parametrize("kind", ["tiff", "gif", "bmp"])
def test_an_image_in_another_format_is_refused_before_a_session_is_made(
    command: Callable[..., Any], folder: Path, kind: str
) -> None:
    before = command("pipeline", "history")
    words = ("pipeline", "ask", "reader", QUESTION, "--image", str(folder / f"page.{kind}"))
    refused = command(*words, code=exits.USAGE)
    assert (refused["code"], "PNG, JPEG or WEBP" in refused["message"]) == ("invalid_image", True)
    assert command("pipeline", "history") == before


def test_a_question_about_an_image_is_refused_where_a_model_without_projector_would_get_it(
    command: Callable[..., Any], folder: Path
) -> None:
    image = ("--image", str(folder / "page.png"))
    refused = command("pipeline", "ask", "reader-and-blind", QUESTION, *image, code=exits.USAGE)
    assert ("blind" in refused["message"], "images: false" in refused["cure"]) == (True, True), refused
    assert command("pipeline", "ask", "only-text", QUESTION, *image)["answer"] is not None
    assert command("pipeline", "ask", "reader-and-blind", QUESTION)["answer"] is not None


def entry_of(pipeline: str) -> RunEntry:
    given = {
        "target": {"pipeline": pipeline},
        "task": "synthetic-questions",
        "dataset": "pages",
        "metrics": ["exact_match"],
        "reports": ["json"],
    }
    return RunEntry.model_validate(given)


def test_answers_are_combined_anew_and_a_stage_is_asked_again_where_the_files_of_a_kept_model_are_gone(
    stack: Stack, command: Callable[..., Any], folder: Path
) -> None:
    joined = stack.wait_without_pauses(stack.client.runs.create(entry_of("joined")).id)
    first = command("pipeline", "ask", "joined-and-read", QUESTION)
    for file in (folder / "gone").iterdir():
        file.unlink()
    voted = stack.client.runs.rerun(joined.id, RunRerun(run=entry_of("voted")))
    voted = stack.wait_without_pauses(voted.id)
    assert (voted.state, voted.done, voted.failed) == ("SUCCEEDED", 2, 0), (voted.reason, stack.logs())
    again = command("pipeline", "rerun", first["id"], "answer")
    assert again["state"] == "SUCCEEDED"
    assert {step["model"]: step["is_reused"] for step in again["steps"]} == {
        "gone": True, "blind": True, "reads": False,
    }  # fmt: skip
    audit(stack)


def test_a_run_of_a_text_only_member_says_so_for_each_sample_with_an_image_and_the_others_answer(
    stack: Stack,
) -> None:
    run = stack.wait_without_pauses(stack.client.runs.create(entry_of("reader-and-blind")).id)
    assert (run.state, run.done, run.failed) == ("SUCCEEDED", 2, 0), (run.reason, stack.logs())
    rows = stack.query(
        "SELECT p.params->>'member', f.status, count(*), min(f.error) FROM fact f "
        "JOIN phase p ON p.run_id = f.run_id AND p.no = f.phase "
        "WHERE f.run_id = %s AND p.kind = 'member' GROUP BY 1, 2 ORDER BY 1",
        run.id,
    )
    assert [row[:3] for row in rows] == [("blind", "error", 2), ("reads", "ok", 2)]
    assert "image projector" in rows[0][3]
    audit(stack)
