"""Journeys through the boards: the list of runs, the leaderboard, the builder of figures, gates, keys and health."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlsplit
from uuid import uuid4

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.test_dashboard import Dashboard, _watch, dashboard, faults
from tests.support.processes import PATIENCE_S
from vlmhyperbench.client import Client
from vlmhyperbench.errors import Denied
from vlmhyperbench.exchange.answers import AnswersFile, ImportedAnswer, write_answers
from vlmhyperbench.wire.answers import RunImport

__all__ = ["dashboard", "faults"]

TASK = "synthetic-questions"


@contextmanager
def opened(
    browser: Browser, dashboard: Dashboard, address: str, faults: list[str], width: int = 1440
) -> Iterator[Page]:
    """Open an address in a browser that has signed in."""
    context = browser.new_context(storage_state=dashboard.session, viewport={"width": width, "height": 900})
    page = _watch(context.new_page(), dashboard.url, faults)
    page.goto(dashboard.url + address)
    yield page
    context.close()


def test_runs_are_filtered_labelled_and_kept_as_a_view(
    browser: Browser, dashboard: Dashboard, faults: list[str]
) -> None:
    with opened(browser, dashboard, "/runs", faults) as page:
        page.get_by_role("button", name="add tags and note of second", exact=True).click()
        page.get_by_label("Tags of second, separated by commas").fill("nightly, <b>tag</b>")
        page.get_by_label("Note of second", exact=True).fill("slow disk\nשלום")
        page.get_by_role("button", name="Save", exact=True).click()
        expect(page.get_by_role("link", name="<b>tag</b>")).to_be_visible()
        labels = dashboard.stack.client.runs.labels(dashboard.second)
        assert (labels.tags, labels.note) == (["<b>tag</b>", "nightly"], "slow disk\nשלום")
        page.get_by_label("Add a filter").fill("tags=nightly")
        page.keyboard.press("Enter")
        expect(page.locator("[data-row]")).to_have_count(1)
        page.get_by_role("button", name="Views").click()
        page.get_by_label("Name of the view").fill("nightly 😀")
        page.get_by_role("menu").get_by_role("button", name="Save").click()
        expect(page.get_by_role("menuitem", name="nightly 😀", exact=True)).to_be_visible()
        page.goto(f"{dashboard.url}/runs?q=nothing+has+this")
        expect(page.get_by_role("heading", name="No run passes the filters")).to_be_visible()
        page.get_by_role("button", name="Views").click()
        page.get_by_role("menuitem", name="nightly 😀", exact=True).click()
        expect(page.locator("[data-row]")).to_have_count(1)
        assert "tags%3Dnightly" in page.url or "tags=nightly" in page.url
        page.get_by_role("button", name="Remove the filter tags=nightly").click()
        expect(page.locator("[data-row]").nth(1)).to_be_visible()


def test_a_wrong_filter_is_named_with_its_cure(browser: Browser, dashboard: Dashboard) -> None:
    with opened(browser, dashboard, "/runs?where=%5B%22metrics.exact_mach%3E0%22%5D", []) as page:
        expect(page.get_by_role("alert")).to_contain_text("exact_match")
        page.get_by_role("button", name="Remove the filter metrics.exact_mach>0").click()
        expect(page.locator("[data-row]").first).to_be_visible()


def test_chosen_runs_are_compared_and_run_again_only_after_a_question(
    browser: Browser, dashboard: Dashboard, faults: list[str]
) -> None:
    with opened(browser, dashboard, "/runs?q=second", faults) as page:
        page.get_by_label("Choose second").first.check()
        toolbar = page.get_by_role("toolbar", name="Chosen runs")
        expect(toolbar.get_by_role("button", name="Cancel")).to_have_count(0)
        before = len(dashboard.stack.client.runs.list().items)
        toolbar.get_by_role("button", name="Run again").click()
        page.get_by_role("dialog").get_by_role("button", name="Leave it as it is").click()
        expect(page.get_by_role("dialog")).to_have_count(0)
        assert len(dashboard.stack.client.runs.list().items) == before
        toolbar.get_by_role("button", name="Run again").click()
        page.get_by_role("dialog").get_by_role("button", name="Run it again").click()
        expect(page.get_by_text("Submitted again")).to_be_visible()
        newest = dashboard.stack.client.runs.list().items[0]
        assert str(newest.parent_run_id) == dashboard.second
        dashboard.stack.wait(newest.id)


def test_what_is_chosen_is_in_the_address_also_where_filters_hide_it(
    browser: Browser, dashboard: Dashboard, faults: list[str]
) -> None:
    with opened(browser, dashboard, "/runs", faults) as page:
        page.get_by_label("Choose second").first.check()
        page.get_by_label("Choose first").first.check()
        toolbar = page.get_by_role("toolbar", name="Chosen runs")
        expect(toolbar).to_contain_text("2 chosen")
        page.get_by_label("Filter by name, target, task, note or tag").press_sequentially("second")
        expect(page.get_by_label("Choose first")).to_have_count(0)
        expect(page.get_by_label("Filter by name, target, task, note or tag")).to_be_focused()
        address = page.url
        page.goto("about:blank")
        page.goto(address)
        expect(toolbar).to_contain_text("2 chosen")
        expect(page.get_by_label("Choose second").first).to_be_checked()
        toolbar.get_by_role("link", name="Compare 2").click()
        expect(page.get_by_text("Paired: the same samples")).to_be_visible()
        page.goto(f"{dashboard.url}/runs?chosen={uuid4()},{dashboard.run}")
        expect(toolbar).to_contain_text("1 chosen, and 1 that is not there")
        toolbar.get_by_role("button", name="Clear").click()
        expect(toolbar).to_have_count(0)
        assert "chosen" not in page.url
        page.goto(f"{dashboard.url}/leaderboard?task={TASK}")
        page.get_by_role("checkbox").first.check()
        page.reload()
        expect(page.get_by_role("checkbox").first).to_be_checked()


def test_the_leaderboard_leads_to_a_comparison_whose_gate_is_checked(
    browser: Browser, dashboard: Dashboard, faults: list[str]
) -> None:
    with opened(browser, dashboard, f"/leaderboard?task={TASK}", faults) as page:
        expect(page.get_by_role("region", name="Ranks", exact=True)).to_contain_text("simulated-instant")
        page.get_by_role("link", name="All runs of this task").click()
        expect(page.locator("[data-row]").nth(1)).to_be_visible()
        assert f"task%3D{TASK}" in page.url
        page.goto(f"{dashboard.url}/compare?runs={dashboard.run},{dashboard.second}")
        gate = page.get_by_role("region", name="Gate")
        gate.get_by_role("button", name="Set a policy").click()
        gate.get_by_role("button", name="Add the rule").click()
        gate.get_by_role("button", name="Check").click()
        expect(gate.get_by_role("list")).to_contain_text("max_drop")
        assert "max_drop: 0.01" in parse_qs(urlsplit(page.url).query)["gate"][0]
        gate.get_by_label("Policy", exact=True).fill("rules:\n- parity: same_text\n  min: 0.5\n")
        gate.get_by_role("button", name="Check").click()
        expect(gate.get_by_text("✓ met")).to_be_visible()
        page.reload()
        expect(gate.get_by_text("✓ met")).to_be_visible()


def test_a_task_of_which_no_run_has_succeeded_is_named(browser: Browser, dashboard: Dashboard) -> None:
    with opened(browser, dashboard, "/leaderboard?task=nothing", []) as page:
        expect(page.get_by_role("alert")).to_contain_text("nothing")
        page.get_by_label("Task", exact=True).select_option(TASK)
        expect(page.get_by_role("region", name="Ranks", exact=True)).to_be_visible()


def test_a_metric_without_a_value_leaves_the_choice_of_others(
    browser: Browser, dashboard: Dashboard, tmp_path: Path
) -> None:
    answers = [ImportedAnswer(key="1", question="What is it?", references=(), text="a receipt")]
    path = tmp_path / "answers.jsonl"
    write_answers(path, AnswersFile(answers=answers, format="lm-eval", tool=None, model="m", task=None, decoding={}))
    file = dashboard.stack.client.upload_answers(path.read_bytes())
    imported = dashboard.stack.client.runs.import_(RunImport(answers=file.sha256, metrics=("exact_match",)))
    run = dashboard.stack.wait(imported.id)
    assert (run.state, [score.value for score in run.headline.scores]) == ("SUCCEEDED", [None])
    for address in (f"/leaderboard?task={TASK}&metric=anls", f"/leaderboard?task={run.task}"):
        with opened(browser, dashboard, address, []) as page:
            expect(page.get_by_role("alert")).to_be_visible()
            metric = page.get_by_label("Metric", exact=True)
            expect(metric).to_be_enabled()
            metric.select_option("exact_match")
            expect(page).to_have_url(re.compile("metric=exact_match"))
            expect(metric).to_be_enabled()
            if run.task in address:
                expect(page.get_by_role("alert")).to_contain_text("exact_match")
                page.get_by_label("Task", exact=True).select_option(TASK)
            expect(page.get_by_role("region", name="Ranks", exact=True)).to_be_visible()


def test_a_wrong_policy_is_refused_with_its_line(browser: Browser, dashboard: Dashboard) -> None:
    gate = "rules%3A%0A-%20parity%3A%20same_text%0A%20%20mim%3A%201%0A"
    address = f"/compare?runs={dashboard.run},{dashboard.second}&gate={gate}"
    with opened(browser, dashboard, address, []) as page:
        expect(page.get_by_role("region", name="Gate").get_by_role("alert")).to_contain_text("mim")
        expect(page.get_by_role("region", name="Metrics", exact=True)).to_be_visible()


def test_a_figure_of_any_two_columns_is_built_and_bounded(
    browser: Browser, dashboard: Dashboard, faults: list[str]
) -> None:
    with opened(browser, dashboard, "/explore", faults) as page:
        page.get_by_label("Across", exact=True).select_option("latency_p99_ms")
        page.get_by_label("Up", exact=True).select_option("metrics.exact_match")
        table = page.get_by_role("region", name="Table of the figure")
        expect(table.get_by_text("on the front").first).to_be_visible()
        page.get_by_label("Up", exact=True).select_option("priority")
        expect(page.get_by_text("Its direction is not known: more is taken to be better.")).to_be_visible()
        page.get_by_role("radiogroup", name="Which end of the axis up is good").get_by_text("less is better").click()
        expect(page.get_by_text("Its direction is not known: this is your choice.")).to_be_visible()
        assert "ygoal=lower" in page.url
        page.get_by_label("Up", exact=True).select_option("metrics.exact_match")
        expect(page.get_by_text("Its direction is not known")).to_have_count(0)
        page.get_by_label("Bound another column").select_option("output_tokens_per_s")
        thumb = page.get_by_label("Lower bound of output tokens per s")
        expect(thumb).to_be_visible()
        runs = table.locator("tbody tr").count()
        thumb.focus()
        page.keyboard.press("ArrowRight")
        expect(page.get_by_role("button", name="Remove the filter output_tokens_per_s>=")).to_be_visible()
        first = thumb.get_attribute("aria-valuenow")
        page.keyboard.press("ArrowRight")  # to the same slider, which still has the focus
        expect(thumb).not_to_have_attribute("aria-valuenow", str(first))
        expect(table.locator("tbody tr")).not_to_have_count(runs)
        address = page.url
        page.goto("about:blank")
        page.goto(address)
        expect(page.get_by_label("Across", exact=True)).to_have_value("latency_p99_ms")
        expect(page.get_by_role("button", name="Remove the filter output_tokens_per_s>=")).to_be_visible()


def test_a_key_is_made_shown_once_and_revoked(browser: Browser, dashboard: Dashboard, faults: list[str]) -> None:
    with opened(browser, dashboard, "/settings", faults) as page:
        page.get_by_role("button", name="New key").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("Name").fill("ci <b>bot</b>")
        dialog.get_by_role("button", name="Make the key").click()
        secret = dialog.locator(".secret").inner_text()
        with Client(dashboard.url, secret) as client:
            assert client.runs.list().items
        dialog.get_by_role("button", name="I have it").click()
        assert secret not in page.content()
        page.get_by_role("button", name="Revoke the key of ci <b>bot</b>").click()
        page.get_by_role("dialog").get_by_role("button", name="Revoke it").click()
        expect(page.get_by_role("row").filter(has_text="ci <b>bot</b>")).to_contain_text("revoked")
        with Client(dashboard.url, secret) as client, pytest.raises(Denied):
            client.runs.list()
        page.get_by_text("Preferences").click()
        page.get_by_role("radiogroup", name="Density of tables").get_by_text("Compact").click()
        assert page.evaluate("document.documentElement.dataset.density") == "compact"
        page.reload()
        expect(page.get_by_role("radio", name="Compact")).to_be_checked()
        assert page.evaluate("document.documentElement.dataset.density") == "compact"


def test_a_browser_whose_key_is_revoked_is_told_so(browser: Browser, dashboard: Dashboard) -> None:
    made = dashboard.stack.client.create_key("visitor", ["run:read", "key:read"])
    with Client(dashboard.url, made.key) as client:
        link = client.browser_ticket().path
    context = browser.new_context()
    page = context.new_page()
    page.set_default_timeout(PATIENCE_S * 1000)
    page.goto(dashboard.url + link)
    expect(page.get_by_role("link", name="Runs", exact=True)).to_be_visible()
    page.goto(f"{dashboard.url}/settings")
    expect(page.get_by_role("row").filter(has_text="visitor")).to_contain_text("this browser signed in with it")
    expect(page.get_by_role("button", name="New key")).to_have_count(0)
    dashboard.stack.client.revoke_key(made.prefix)
    page.goto(f"{dashboard.url}/runs")
    expect(page.get_by_role("alert")).to_contain_text("vlmhyperbench open")
    context.close()


def test_health_says_what_doctor_says(browser: Browser, dashboard: Dashboard, faults: list[str]) -> None:
    with opened(browser, dashboard, "/health", faults) as page:
        passed = page.get_by_role("region", name="Passed checks")
        for check in ("database", "Redis", "storage", "clock", "scheduler", "workers", "versions", "registries"):
            expect(passed.get_by_role("rowheader", name=check)).to_be_visible()


def test_a_registry_entry_shows_origins_its_yaml_and_where_it_is_used(
    browser: Browser, dashboard: Dashboard, faults: list[str]
) -> None:
    with opened(browser, dashboard, "/registry/tasks/synthetic-questions", faults) as page:
        row = page.get_by_role("row").filter(has=page.get_by_role("rowheader", name="prompt", exact=True))
        expect(row).to_contain_text("tasks/synthetic-questions.yaml:")
        page.get_by_label("Filter: Effective value").fill("default")
        expect(page.get_by_role("rowheader", name="on_invalid")).to_be_visible()
        expect(page.get_by_role("region", name="YAML", exact=True)).to_contain_text("dataset: synthetic-questions")
        page.get_by_role("link", name="its runs").click()
        expect(page.get_by_role("link", name="second", exact=True)).to_be_visible()
        page.goto(f"{dashboard.url}/registry/datasets/synthetic-questions")
        page.get_by_role("link", name="synthetic-questions", exact=True).click()
        expect(page.get_by_role("link", name="tasks", exact=True)).to_be_visible()
