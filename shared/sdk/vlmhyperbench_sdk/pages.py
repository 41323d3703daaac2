"""Write the page of a plugin from its class: `python -m vlmhyperbench_sdk.pages NAME package.module:Class FILE.md`.

The class's docstring is the page: a first paragraph, then sections. The page of a metric also has what its description
says, and its profiles. A test of the plugin compares page and class, so that both change together.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import cast

from vlmhyperbench_sdk import discovery
from vlmhyperbench_sdk.protocols import Metric, MetricDescription

_STARTS = re.compile(r"(- |\||#|```)")


def page_of(name: str, plugin: type) -> str:
    """Return the page of a plugin under the name by which it is registered."""
    text = unwrapped(inspect.cleandoc(plugin.__doc__ or ""))
    if not (hasattr(plugin, "measure") and hasattr(plugin, "combine")):
        return f"# {name}\n\n{text}\n"
    return metric_page(name, text, profiles_of(plugin), descriptions_of(plugin))


def profiles_of(metric: type) -> Mapping[str, str]:
    """Return profile → what it does, the default first, as the class says it."""
    profiles = getattr(metric, "profiles", None)
    return cast("Mapping[str, str]", profiles) if isinstance(profiles, Mapping) else {}


def descriptions_of(metric: type) -> list[MetricDescription]:
    """Return the description of every profile, the default first."""
    construct = cast("Callable[..., Metric]", metric)
    profiles = profiles_of(metric)
    if not profiles:
        return [construct().description]
    return [construct(profile=profile).description for profile in profiles]


def metric_page(name: str, text: str, profiles: Mapping[str, str], descriptions: Sequence[MetricDescription]) -> str:
    """Write the page of a metric.

    Args:
        name: Name by which it is registered.
        text: Docstring of its class: a first paragraph, the section with its formula, and others.
        profiles: Profile → what it does.
        descriptions: One for each profile.
    """
    listed = "".join(
        f"- `{profile}`{' (default)' if no == 0 else ''}: {does}\n"
        for no, (profile, does) in enumerate(profiles.items())
    )
    lead, *sections = re.split(r"^(?=## )", text, flags=re.MULTILINE)
    formula, others = sections[:1], sections[1:]
    parts = [
        f"# {name}",
        lead.partition("\n\n")[0],
        _kinds(descriptions),
        *formula,
        *([f"## Profiles\n\n{listed}"] if listed else []),
        *others,
    ]
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def unwrapped(text: str) -> str:
    """Join the lines of each paragraph, list item and table row; code stays as it is."""
    lines: list[str] = []
    is_code = False
    for line in text.split("\n"):
        is_code ^= line.startswith("```")
        if is_code or not line or _STARTS.match(line) or not lines or not lines[-1]:
            lines.append(line)
        else:
            lines[-1] += f" {line.strip()}"
    return "\n".join(lines)


def _kinds(descriptions: Sequence[MetricDescription]) -> str:
    """Say kind, unit, range and direction, once for profiles that agree."""
    said: dict[str, list[str]] = {}
    for description in descriptions:
        said.setdefault(_kind(description), []).append(f"`{description.profile}`")
    if len(said) == 1:
        return next(iter(said))
    return "\n".join(f"- {', '.join(profiles)}: {kind}" for kind, profiles in said.items())


def _kind(description: MetricDescription) -> str:
    low, high = ("unbounded" if end is None else f"{end:g}".replace("-", "\N{MINUS SIGN}") for end in description.range)
    parts = [f"Kind {description.kind}, unit {description.unit}, range {low} to {high}, version {description.version}"]
    if description.direction is not None:
        parts.append(f"{description.direction} is better")
    is_share = " Every value is 0 or 1, so that its interval is Wilson's." if description.proportion else ""
    return ", ".join(parts) + "." + is_share


def main(name: str, class_path: str, file: str) -> int:
    """Write a page."""
    Path(file).write_text(page_of(name, discovery.load("metrics", class_path)), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.path.insert(0, "")
    sys.exit(main(*sys.argv[1:]))
