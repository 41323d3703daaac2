"""Pages, registry entries and descriptions of metrics are those of their classes; a new metric needs no other file."""

from __future__ import annotations

import inspect
import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.architecture.metric_pages import (
    INDEX,
    ROOT,
    Documentation,
    documented,
    entry_of,
    files,
    page_of,
    stale,
)
from tests.sdk.test_metric_conformance import DESCRIPTION
from vlmhyperbench.templates.making import make_package
from vlmhyperbench_sdk import pages

PAGE = """\
How much is the same.

## Formula

equal words / words, in a sentence that
goes on.

| Tool | Difference |
|---|---|
| other | it counts otherwise,
    and says so |

## Rows

```json
{"id": 1,
 "prediction": "x"}
```
"""


def _metric() -> Documentation:
    return Documentation(
        name="same",
        package="my-metrics",
        text=pages.unwrapped(inspect.cleandoc(PAGE)),
        profiles={"plain": "letter by letter."},
        descriptions=[DESCRIPTION],
    )


def test_what_is_written_of_metrics_is_what_their_classes_say() -> None:
    written = files(documented(), (ROOT / INDEX).read_text(encoding="utf-8"))
    assert not list(stale(written)), "Run: make docs"


def test_the_page_of_a_metric_is_its_docstring_with_profiles_and_kind() -> None:
    page = page_of(_metric())
    assert page.startswith(
        "# same\n\nHow much is the same.\n\nKind text, unit 1, range 0 to 1, version 1.0.0, higher is better."
    )
    headings = [line for line in page.splitlines() if line.startswith("## ")]
    assert headings == ["## Formula", "## Profiles", "## Rows"]
    assert "equal words / words, in a sentence that goes on." in page
    assert "| other | it counts otherwise, and says so |" in page
    assert '{"id": 1,\n "prediction": "x"}' in page
    assert "- `plain` (default): letter by letter." in page


def test_a_new_metric_gets_its_entry_its_row_and_its_place_in_the_json() -> None:
    written = files([_metric()], (ROOT / INDEX).read_text(encoding="utf-8"))
    assert "class_path: same\nprofile: plain\n" in entry_of(_metric())
    assert "| [same](same.md) | plain | mean | my-metrics |" in written[INDEX]
    assert '"metric": "same"' in written["docs/metrics/metrics.json"]
    assert "registries/metrics/anls.yaml" in set(stale(written)), "an entry whose metric is gone is noticed"


def test_adding_a_metric_touches_three_files_and_the_rest_is_written(tmp_path: Path) -> None:
    """The three are its module, its test, and the line of its entry point; `make docs` changes nothing else by hand."""
    tree, package = tmp_path / "tree", tmp_path / "package"
    for folder in ("docs/metrics", "registries/metrics"):
        shutil.copytree(ROOT / folder, tree / folder)
    (tree / "tests" / "architecture").mkdir(parents=True)
    for module in ("tests/__init__.py", "tests/architecture/__init__.py", "tests/architecture/metric_pages.py"):
        shutil.copy(ROOT / module, tree / module)
    made = make_package("metric", "new-words", tmp_path / "template")
    info = package / "new_words-0.1.0.dist-info"
    info.mkdir(parents=True)
    shutil.copy(made.folder / "new_words.py", package)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: new-words\nVersion: 0.1.0\n")
    (info / "entry_points.txt").write_text("[vlmhyperbench.metrics]\nnew_words = new_words:NewWords\n")
    before = _contents(tree)
    subprocess.run(
        [sys.executable, "-m", "tests.architecture.metric_pages"],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": str(package)},
        check=True,
    )
    after = _contents(tree)
    assert {path for path, text in after.items() if before.get(path) != text} == {
        "docs/metrics/new_words.md",
        "docs/metrics/README.md",
        "docs/metrics/metrics.json",
        "registries/metrics/new_words.yaml",
    }
    assert after["docs/metrics/new_words.md"] == (made.folder / "docs" / "new_words.md").read_text()


def _contents(tree: Path) -> dict[str, str]:
    return {
        str(path.relative_to(tree)): path.read_text()
        for path in tree.rglob("*")
        if path.suffix != ".pyc" and path.is_file()
    }
