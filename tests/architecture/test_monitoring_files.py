"""Rules, dashboards and the page of metrics name only metrics of the table, and are written from their descriptions."""

import re
import shutil
import subprocess

import pytest
import yaml

from tests.architecture.dashboards import DASHBOARDS, FOLDER, dashboard, text_of
from tests.architecture.metric_table import PAGE, page
from tests.support.needs import skip_or_fail
from vlmhyperbench.monitoring.catalogue import METRICS, PREFIX

MONITORING = FOLDER.parents[1]
SERVED = {
    served
    for metric in METRICS.values()
    for served in (
        [f"{metric.full_name}{part}" for part in ("_bucket", "_count", "_sum")]
        if metric.kind == "histogram"
        else [metric.full_name]
    )
}


def test_every_metric_follows_the_conventions_of_prometheus():
    for name, metric in METRICS.items():
        assert re.fullmatch(r"[a-z][a-z_]*[a-z]", name)
        assert name.endswith("_total") == (metric.kind == "counter"), name
        assert (metric.kind == "histogram") == name.endswith("_duration_seconds") == bool(metric.buckets), name
        assert not any(unit in name for unit in ("_ms", "_mb", "_ns", "_minutes", "_percent")), name
        assert not {"run", "run_id", "job", "job_id", "trace_id", "le"} & set(metric.labels), name


@pytest.mark.parametrize("name", DASHBOARDS)
def test_a_dashboard_is_written_from_its_description(name):
    assert (FOLDER / f"{name}.json").read_text() == text_of(name), "Run: make docs"


def test_rules_and_dashboards_name_only_metrics_that_are_served():
    queries = [
        target["expr"] for name in DASHBOARDS for panel in dashboard(name)["panels"] for target in panel["targets"]
    ]
    rules = (MONITORING / "rules.yml").read_text()
    named = set(re.findall(rf"{PREFIX}[a-z_]+", " ".join(queries) + rules))
    assert named <= SERVED, named - SERVED
    assert len(named) > 25


def test_panels_do_not_overlap_and_have_titles_of_their_own():
    for name in DASHBOARDS:
        taken, titles = set(), []
        for panel in dashboard(name)["panels"]:
            place = panel["gridPos"]
            cells = {
                (x, y)
                for x in range(place["x"], place["x"] + place["w"])
                for y in range(place["y"], place["y"] + place["h"])
            }
            assert max(x for x, _ in cells) < 24
            assert not taken & cells, panel["title"]
            taken |= cells
            titles.append(panel["title"])
        assert len(titles) == len(set(titles))


def test_the_page_lists_every_metric():
    assert PAGE.read_text() == page(), "Run: make docs"


def test_every_alert_is_fired_by_the_tests_of_the_rules_and_explained_on_the_page():
    alerts = set(re.findall(r"alert: (\w+)", (MONITORING / "rules.yml").read_text()))
    cases = [
        case
        for test in yaml.safe_load((MONITORING / "rules_test.yml").read_text())["tests"]
        for case in test["alert_rule_test"]
    ]
    assert {case["alertname"] for case in cases if case["exp_alerts"]} == alerts
    assert alerts <= set(re.findall(r"^\| (\w+) \|", PAGE.read_text(), re.MULTILINE))


@pytest.mark.parametrize("arguments", [("check", "rules", "rules.yml"), ("test", "rules", "rules_test.yml")])
def test_the_rules_hold_by_promtool(arguments):
    if shutil.which("promtool") is None:
        skip_or_fail("promtool is not installed.", "VLMHB_NEED_MONITORING")
    done = subprocess.run(["promtool", *arguments], cwd=MONITORING, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
