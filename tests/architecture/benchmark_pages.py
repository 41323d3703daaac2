"""Write docs/benchmarks.md, the public benchmarks that are registered: `python -m tests.architecture.benchmark_pages`.

`make docs` calls it; a test notices an entry that has changed since.
"""

from __future__ import annotations

from pathlib import Path

from benchmarks.harness_scores import CASES
from vlmhyperbench.registry.benchmarks import Benchmark, HarnessRule
from vlmhyperbench.registry.catalogue import Catalogue
from vlmhyperbench.registry.loading import load_catalogue
from vlmhyperbench.registry.schemas import DatasetEntry, TaskEntry

ROOT = Path(__file__).parents[2]
PAGE = "docs/benchmarks.md"
HUB = "hf://datasets/"
HEAD = """\
# Public benchmarks

This page is written by `make docs` from the entries in `registries/tasks` and `registries/datasets`. An entry states \
where the data is, and how it is asked and scored; where evaluation harnesses disagree, it says so and which rule was \
taken. A run fetches the data from the hub into the cache of the machine:

```sh
vlmhyperbench run --model tiny-doc-vlm --task docvqa --limit 20
```

**What was verified.** Every entry runs in the tests on a *fixture*: a few drawn rows in the schema of its data, whose \
answers get the scores that are written beside them. Nobody has run an entry on \
the data itself here, and no published number was reproduced. The answers of {compared} fixtures have [the same scores \
by the code of harnesses](results/harness-scores.md). Repository, revision, licence, split and size \
of each entry were looked up in copies of the hub's pages and in public code that pins them; an entry says under *Not \
found* what could not be seen. Without a revision, a run takes the newest state of the repository, and its manifest \
records which. An empty licence means that the repository states none. In pages of 2026 some repositories of \
`lmms-lab` have the owner `lmms-lab-encoder`, with the same commits; if the hub refuses the old name, copy the entry \
with the new one.

"""
COLUMNS = ("task", "data", "split", "samples", "licence", "metrics", "verified")


def page() -> str:
    """Return the page: a table, then a section for each benchmark."""
    catalogue = load_catalogue(ROOT / "registries")
    tasks = {name: task for name, task in sorted(catalogue.tasks.items()) if task.benchmark is not None}
    rows = [f"| {' | '.join(COLUMNS)} |", f"|{'---|' * len(COLUMNS)}"]
    rows += [f"| {' | '.join(_row(name, task, catalogue))} |" for name, task in tasks.items()]
    sections = [_section(name, task, catalogue) for name, task in tasks.items()]
    compared = len({task for task, *_ in CASES.values()})
    return HEAD.format(compared=compared) + "\n".join(rows) + "\n\n" + "\n\n".join(sections) + "\n"


def _row(name: str, task: TaskEntry, catalogue: Catalogue) -> tuple[str, ...]:
    dataset, known = catalogue.datasets[task.dataset], _known(task)
    repository = _repository(dataset)
    return (
        f"[`{name}`](#{name})",
        f"[{repository}](https://huggingface.co/datasets/{repository})",
        dataset.split or "",
        f"{known.samples:,}",
        known.license or "",
        ", ".join(f"`{metric}`" for metric in task.metrics),
        known.verified,
    )


def _section(name: str, task: TaskEntry, catalogue: Catalogue) -> str:
    dataset, known = catalogue.datasets[task.dataset], _known(task)
    config = dataset.params.get("config")
    subset = f", subset `{config}`" if isinstance(config, str) else ""
    revision = f", revision `{dataset.revision}`" if dataset.revision else ""
    columns = dataset.params.get("columns")
    names = ", ".join(f"`{column}`" for column in _columns(columns))
    lines = [
        f"## {name}",
        "",
        dataset.description,
        "",
        f"- **Data:** `{_repository(dataset)}`{subset}{revision}; the columns {names} are read.",
        f"- **Prompt:** `{task.prompt}`. {known.prompt}",
        f"- **Official score:** {known.scoring}",
        f"- **Rule taken:** {known.rule}",
    ]
    lines += [f"- **Not computed:** {known.lacks}"] if known.lacks else []
    lines += [f"- **Not found:** {known.not_found}"] if known.not_found else []
    lines += [f"- **{rule.harness}, `{rule.task}`:** {_rule(rule)}" for rule in known.harnesses]
    lines += [f"- **Where they disagree:** {known.differences}"] if known.differences else []
    return "\n".join([*lines, f"- **Sources:** {', '.join(f'<{source}>' for source in known.sources)}"])


def _rule(rule: HarnessRule) -> str:
    return f"asks {rule.prompt}; scores by {rule.scoring}."


def _repository(dataset: DatasetEntry) -> str:
    return (dataset.path or "").removeprefix(HUB)


def _known(task: TaskEntry) -> Benchmark:
    if task.benchmark is None:
        raise ValueError(f"{task.name} is no public benchmark")
    return task.benchmark


def _columns(mapping: object) -> list[str]:
    """Return the columns that a mapping reads, in its order, each once."""
    if isinstance(mapping, str):
        return [mapping]
    parts: list[object] = []
    if isinstance(mapping, dict):
        parts = [mapping["column"]] if "column" in mapping else [v for k, v in mapping.items() if k != "value"]
    elif isinstance(mapping, list):
        parts = list(mapping)
    return list(dict.fromkeys(column for part in parts for column in _columns(part)))


if __name__ == "__main__":
    (ROOT / PAGE).write_text(page(), encoding="utf-8")
