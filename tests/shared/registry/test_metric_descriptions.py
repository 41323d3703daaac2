"""The committed descriptions of metrics are those of the code, and every metric has a page."""

from __future__ import annotations

import json
from pathlib import Path

from vlmhyperbench.registry.descriptions import describe_metrics
from vlmhyperbench.registry.loading import load_catalogue
from vlmhyperbench_sdk import discovery

ROOT = Path(__file__).parents[3]


def test_the_committed_descriptions_are_those_of_the_code() -> None:
    described = describe_metrics(load_catalogue(ROOT / "registries"))
    committed = json.loads((ROOT / "docs" / "metrics" / "metrics.json").read_text(encoding="utf-8"))
    assert committed == json.loads(json.dumps(described)), (
        "Run: python -m vlmhyperbench.registry.descriptions registries docs/metrics/metrics.json"
    )


def test_every_metric_is_registered_and_has_a_page_that_names_its_profiles() -> None:
    catalogue = load_catalogue(ROOT / "registries")
    assert sorted(catalogue.metrics) == discovery.names("metrics")
    index = (ROOT / "docs" / "metrics" / "README.md").read_text(encoding="utf-8")
    for name, entry in catalogue.metrics.items():
        page = (ROOT / "docs" / "metrics" / f"{name}.md").read_text(encoding="utf-8")
        assert f"[{name}]({name}.md)" in index
        assert not [profile for profile in (entry.profile, *entry.profiles) if f"`{profile}`" not in page]
