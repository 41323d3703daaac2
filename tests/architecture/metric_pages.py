"""Write what is said of every metric from its class: its registry entry, its page, the index and metrics.json.

`python -m tests.architecture.metric_pages` does it, and `make docs` calls that; a test notices what has changed. A
class says it by its docstring (the page: a first paragraph, then sections), by `profiles` (profile → what it does, the
first is the default) and by the description of each profile.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import entry_points
from pathlib import Path

import yaml

from vlmhyperbench.registry.schema_lines import with_schema_line
from vlmhyperbench_sdk import discovery, pages
from vlmhyperbench_sdk.protocols import MetricDescription

ROOT = Path(__file__).parents[2]
PAGES = "docs/metrics"
SCHEMA = "vlmhb/metrics/v1"
INDEX = f"{PAGES}/README.md"
TABLE = re.compile(r"(<!-- metrics: written by make docs -->\n).*?(<!-- end -->\n)", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Documentation:
    """A metric with the descriptions of its profiles, the default first."""

    name: str
    package: str
    text: str
    profiles: Mapping[str, str]
    descriptions: Sequence[MetricDescription]

    @property
    def lead(self) -> str:
        """The first paragraph."""
        return self.text.partition("\n\n")[0]


def documented() -> list[Documentation]:
    """Return every registered metric, by its name."""
    found = []
    for name in discovery.names("metrics"):
        (point,) = entry_points(group="vlmhyperbench.metrics", name=name)
        loaded = discovery.load("metrics", name)
        found.append(
            Documentation(
                name=name,
                package=point.dist.name if point.dist else "",
                text=pages.unwrapped(inspect.cleandoc(loaded.__doc__ or "")),
                profiles=pages.profiles_of(loaded),
                descriptions=pages.descriptions_of(loaded),
            )
        )
    return found


def files(metrics: Sequence[Documentation], index: str) -> dict[str, str]:
    """Return path → content of everything that is written; `index` is the index as it is."""
    rows = "".join(map(_index_row, metrics))
    table = f"| Metric | Profiles | A group is | Package |\n|---|---|---|---|\n{rows}"
    described = [
        {"metric": metric.name, "is_default": no == 0, **asdict(description)}
        for metric in metrics
        for no, description in enumerate(metric.descriptions)
    ]
    return {
        **{f"{PAGES}/{metric.name}.md": page_of(metric) for metric in metrics},
        **{f"registries/metrics/{metric.name}.yaml": entry_of(metric) for metric in metrics},
        f"{PAGES}/metrics.json": json.dumps({"schema": SCHEMA, "metrics": described}, ensure_ascii=False, indent=1)
        + "\n",
        INDEX: TABLE.sub(lambda marks: f"{marks[1]}{table}{marks[2]}", index),
    }


def page_of(metric: Documentation) -> str:
    """Write the page of a metric."""
    return pages.metric_page(metric.name, metric.text, metric.profiles, metric.descriptions)


def entry_of(metric: Documentation) -> str:
    """Write the registry entry of a metric."""
    first = metric.descriptions[0]
    others = {profile: {"profile": profile} for profile in list(metric.profiles)[1:]}
    entry = {
        "description": metric.lead,
        "version": first.version,
        "class_path": metric.name,
        "profile": first.profile,
        **({"profiles": others} if others else {}),
    }
    text = yaml.safe_dump(entry, allow_unicode=True, sort_keys=False, width=120)
    return with_schema_line("metrics", f"# Written by `make docs` from the metric's class.\n{text}")


def _index_row(metric: Documentation) -> str:
    profiles = ", ".join(metric.profiles)
    group = metric.descriptions[0].aggregation
    return f"| [{metric.name}]({metric.name}.md) | {profiles} | {group} | {metric.package} |\n"


def stale(written: Mapping[str, str]) -> Iterator[str]:
    """Name every file that is not as its metric says, or whose metric is gone."""
    for name, text in written.items():
        if not (ROOT / name).is_file() or (ROOT / name).read_text(encoding="utf-8") != text:
            yield name
    for folder, suffix in ((PAGES, ".md"), ("registries/metrics", ".yaml")):
        there = {str(path.relative_to(ROOT)) for path in (ROOT / folder).glob(f"*{suffix}")}
        yield from sorted(there - set(written))


def main() -> None:
    """Write every file."""
    for name, text in files(documented(), (ROOT / INDEX).read_text(encoding="utf-8")).items():
        (ROOT / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
