"""The pages of pipelines: one is built, saved, asked with an image, asked again, compared; a model is loaded."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest
from PIL import Image
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.browser.checks import check_page
from tests.support.processes import PATIENCE_S
from tests.support.stack import Stack
from vlmhyperbench.exchange.answers import SCHEMA
from vlmhyperbench.wire.sessions import Session, SessionCreate

PATIENCE_MS = PATIENCE_S * 1000
READER, SMALL = "tiny-doc-vlm-0.2-q8", "tiny-doc-vlm-0.2-q4"


@pytest.fixture(scope="module")
def registries(registries: Path) -> Path:
    """Add a pipeline that answers at once."""
    stages = [
        {
            "id": "read",
            "type": "multi",
            "models": ["simulated-instant", "simulated"],
            "aggregation": {"type": "vote"},
        },
        {"id": "answer", "type": "single", "model": "simulated-instant", "input_from": "read"},
    ]
    entry = {"description": "For tests.", "stages": stages}
    (registries / "pipelines/simulated-two.yaml").write_text(json.dumps(entry), encoding="utf-8")
    return registries


@pytest.fixture(scope="module")
def asked(stack: Stack) -> tuple[UUID, UUID]:
    """Ask two questions, and return the sessions."""
    return _ask(stack, "What is the total?"), _ask(stack, "What is the date?")


def _ask(stack: Stack, question: str) -> UUID:
    header = {"schema": SCHEMA, "format": "question", "tool": None, "model": None, "task": None, "decoding": {}}
    row = {"key": "question", "question": question, "references": [], "text": None, "error": "it is asked"}
    uploaded = stack.client.upload_answers(f"{json.dumps(header)}\n{json.dumps(row)}\n".encode())
    created = stack.client.sessions.ask(SessionCreate(pipeline="simulated-two", question=uploaded.sha256))
    stack.wait(created.id)
    return created.id


@pytest.fixture
def context(browser: Browser, stack: Stack, session: Path) -> Iterator[BrowserContext]:
    context = browser.new_context(
        storage_state=session,
        reduced_motion="reduce",
        base_url=str(stack.home.api_url()),
        viewport={"width": 1280, "height": 1000},
    )
    yield context
    context.close()


@pytest.fixture
def page(context: BrowserContext) -> Iterator[Page]:
    """Open a page; one that throws fails the test."""
    page, thrown = context.new_page(), list[str]()
    page.on("pageerror", lambda error: thrown.append(str(error)))
    page.set_default_timeout(PATIENCE_MS)
    expect.set_options(timeout=PATIENCE_MS)
    yield page
    assert not thrown


@pytest.fixture(scope="module")
def picture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pages") / "page.png"
    Image.new("RGB", (64, 32), "white").save(path)
    return path


def test_a_pipeline_is_built_saved_asked_and_compared_with_its_rerun(page: Page, stack: Stack, picture: Path) -> None:
    page.goto("/pipelines")
    expect(page.get_by_role("heading", name="There is no base pipeline")).to_be_visible()
    page.get_by_role("link", name="build it here").click()
    expect(page.get_by_label("Name", exact=True)).to_have_value("base")
    _build(page)
    page.get_by_role("button", name="Save", exact=True).click()
    page.get_by_role("link", name="Ask base").click()
    expect(page.get_by_role("region", name="Pipeline", exact=True)).to_contain_text("can be asked")
    page.get_by_role("textbox", name="Question").fill("What is the total?")
    page.locator("input[type=file]").set_input_files(picture)
    expect(page.get_by_role("list", name="Chosen images").get_by_role("img", name="page.png")).to_be_visible()
    page.get_by_role("button", name="Ask base").click()
    asked = page.get_by_role("region", name="Session", exact=True)
    expect(asked.get_by_role("listitem", name=f"Step read: {READER}")).to_contain_text("done")
    expect(asked.get_by_role("listitem", name=f"Step answer: {SMALL}")).to_contain_text("tokens")
    expect(asked.get_by_role("region", name="Answer", exact=True)).to_be_visible()
    expect(asked.get_by_role("img", name="Page 1 of the question")).to_be_visible()
    [first] = _sessions(stack, "base")
    asked.get_by_role("button", name="Ask again: answer").click()
    expect(asked.get_by_role("listitem", name=f"Step read: {READER}")).to_contain_text("reused")
    expect(asked.get_by_role("region", name="Answer", exact=True)).to_be_visible()
    again, _ = _sessions(stack, "base")
    assert again.parent_run_id == first.id
    steps = stack.client.sessions.get(again.id).steps
    assert [(step.stage, step.model, step.is_reused) for step in steps] == [
        ("read", READER, True),
        ("answer", SMALL, False),
    ]
    assert all(step.prompt_tokens and step.completion_tokens for step in steps)
    page.get_by_text("History", exact=True).click()
    for run in (first, again):
        page.get_by_role("checkbox", name=f"Compare {run.name} {run.id.hex[:8]}").check()
    compared = page.get_by_role("region", name="Comparison of two sessions")
    expect(compared.get_by_role("status")).to_contain_text("No step differs. The answers are the same.")
    page.reload()
    expect(compared.get_by_role("region", name=f"answer: {SMALL}", exact=True)).to_contain_text("the same")


def _sessions(stack: Stack, pipeline: str) -> list[Session]:
    """Return the sessions of a pipeline, newest first."""
    return [session for session in stack.client.sessions.list().items if session.pipeline == pipeline]


def _build(page: Page) -> None:
    """Build two stages: by dragging and by keys, with every problem at its stage until it is mended."""
    stages = page.get_by_role("list", name="Stages that are built")
    page.get_by_role("button", name="Add a stage of several models").click()
    page.get_by_role("button", name="Add a stage of one model").click()
    read, answer = (
        stages.get_by_role("listitem", name="Stage read"),
        stages.get_by_role("listitem", name="Stage answer"),
    )
    expect(read.get_by_role("list", name="What is wrong in read")).to_contain_text("at least two models")
    expect(answer.get_by_role("list", name="What is wrong in answer")).to_contain_text("needs model")
    read.get_by_label("Type of read").select_option("single")
    page.get_by_label("Filter the models").fill(READER)
    shelf = page.get_by_role("region", name="Models that can be dragged")
    shelf.get_by_text(READER).drag_to(read)
    expect(read.get_by_role("list", name="Models of read")).to_contain_text(READER)
    answer.get_by_role("combobox", name="Add a model to answer").fill(SMALL)
    page.get_by_role("option", name=SMALL).click()
    expect(answer.get_by_role("list", name="Models of answer")).to_contain_text(SMALL)
    answer.get_by_role("button", name="Move answer: drag it").press("ArrowUp")
    expect(page.get_by_role("status").filter(has_text="Moved answer to place 1 of 2.")).to_be_attached()
    expect(answer.get_by_role("list", name="What is wrong in answer")).to_contain_text("comes later")
    read.get_by_role("button", name="Move read: drag it").drag_to(answer)
    expect(answer.get_by_role("checkbox", name="the answer of read")).to_be_checked()
    answer.get_by_role("checkbox", name="the answer of read").uncheck()
    expect(answer.get_by_role("list", name="What is wrong in answer")).to_contain_text("input_from")
    read.get_by_role("button", name="Answer of read: drag it").drag_to(answer)
    expect(answer.get_by_role("checkbox", name="the answer of read")).to_be_checked()
    expect(page.get_by_role("region", name="Check")).to_contain_text("the pipeline is valid")
    words = f"read gets the question and asks {READER}; answer gets read and asks {SMALL}. "
    words += "The answer is that of answer."
    expect(page.get_by_role("region", name="Graph").get_by_role("img")).to_have_accessible_name(words)
    plan = page.get_by_role("region", name="Plan of one question")
    expect(plan.get_by_role("row", name=f"read: {READER}")).to_be_visible()
    expect(plan.get_by_role("region", name="Memory of devices")).to_contain_text(SMALL)


def test_a_model_is_loaded_and_unloaded_and_its_memory_is_estimated(page: Page) -> None:
    page.goto("/pipelines?tab=models")
    row = page.get_by_role("row").filter(has=page.get_by_role("link", name=READER, exact=True))
    expect(row).to_contain_text("Q8_0")
    row.get_by_role("button", name=f"Load {READER}", exact=True).click()
    expect(row).to_contain_text("● loaded")
    row.get_by_role("button", name=f"Pin {READER}").click()
    expect(row).to_contain_text("pinned")
    row.get_by_role("link", name=READER, exact=True).click()
    memory = page.get_by_role("region", name=f"Memory of {READER}", exact=True)
    predicted = memory.get_by_role("row").filter(has=page.get_by_role("rowheader", name="Predicted", exact=True))
    expect(predicted).to_contain_text("MiB")
    row.get_by_role("button", name=f"Unload {READER}").click()
    expect(row).to_contain_text("✓ available")


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280, 2560])
def test_pages_with_sessions_and_problems_pass_axe_and_fit_their_window(
    browser: Browser, stack: Stack, session: Path, asked: tuple[UUID, UUID], width: int, theme: str
) -> None:
    first, second = asked
    wrong = '{"stages":[{"id":"read","type":"multi","models":["no-such"]},{"id":"b","type":"single","input_from":"c"}]}'
    context = browser.new_context(
        viewport={"width": width, "height": 1000},
        color_scheme=theme,
        storage_state=session,
        reduced_motion="reduce",
        base_url=str(stack.home.api_url()),
    )
    page = context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    for address in (
        f"/pipelines?session={first}",
        f"/pipelines?tab=history&session={first}",
        f'/pipelines?tab=history&compare=["{first}","{second}"]',
        "/pipelines?tab=history&pipeline=nothing&state=FAILED",
        "/pipelines?tab=builder&pipeline=readers-synthesis",
        f"/pipelines?tab=builder&name=bad%20name&draft={wrong}",
        f"/pipelines?tab=models&model={READER}",
        "/pipelines?pipeline=no-such",
    ):
        page.goto(address)
        page.wait_for_load_state("networkidle")
        expect(page.get_by_role("status").filter(has_text="Loading")).to_have_count(0)
        check_page(page, address)
    context.close()
