"""Describe every registered metric in every profile, for machines: what documentation and dashboards show.

`python -m vlmhyperbench.registry.descriptions REGISTRIES OUT` writes them as JSON.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Final

from vlmhyperbench.registry.catalogue import Catalogue
from vlmhyperbench.registry.loading import load_catalogue
from vlmhyperbench.scoring.metrics import construct_metric
from vlmhyperbench_sdk.types import JsonObject

SCHEMA: Final = "vlmhb/metrics/v1"


def describe_metrics(catalogue: Catalogue) -> JsonObject:
    """Return the descriptions, by the metrics' names and profiles, the default profile first.

    Raises:
        VlmHyperBenchError: a metric cannot be constructed.
    """
    described: list[JsonObject] = []
    for name, entry in sorted(catalogue.metrics.items()):
        for profile in (entry.profile, *entry.profiles):
            params = {**entry.params, "profile": profile, **entry.profiles.get(profile, {})}
            found = construct_metric(entry.class_path, params, name=name).description
            described.append({"metric": name, "is_default": profile == entry.profile, **asdict(found)})
    return {"schema": SCHEMA, "metrics": described}


def write(registries: Path, out: Path) -> None:
    """Write the descriptions of a registry's metrics."""
    described = describe_metrics(load_catalogue(registries))
    out.write_text(json.dumps(described, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]), Path(sys.argv[2]))
