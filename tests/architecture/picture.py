"""Draw docs/architecture.svg: the processes by hand, rooms, services and plugins from the tree.

`python -m tests.architecture.picture` does it, and `make docs` calls that; a test notices a room that is not in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

import tomllib

ROOT = Path(__file__).parents[2]
PICTURE = ROOT / "docs" / "architecture.svg"
ROOMS = "The rooms of the shared library are layers"
WIDTH = 1120
_BOX = (240, 84)
_ROOMS_TOP, _LAYER_HEIGHT, _GAP = 672, 30, 6
_ROOMS_LEFT, _ROOMS_WIDTH = 40, 700
_LIST_LEFT, _LIST_WIDTH = 790, 290

STYLE = """\
.bg{fill:#fff}.box{fill:#f6f8fb;stroke:#5b6b82;stroke-width:1.4}.svc{fill:#e8f0fe;stroke:#3b62b5}
.data{fill:#fdf3e1;stroke:#b07a1e}.eng{fill:#e7f6ec;stroke:#2f8250}
text{fill:#1c2733;font-size:14px}.h{font-weight:600}.s{font-size:12px;fill:#4a5a6d}
.l{font-size:12px;fill:#4a5a6d;paint-order:stroke;stroke:#fff;stroke-width:6px}
.e{stroke:#5b6b82;stroke-width:1.5;fill:none;marker-end:url(#a)}.b{marker-start:url(#a)}.a{fill:#5b6b82}
@media (prefers-color-scheme: dark){.bg{fill:#12161c}.box{fill:#1b222c;stroke:#8b9bb2}.svc{fill:#1d2a45;stroke:#7fa2ee}
.data{fill:#33290f;stroke:#dcae5a}.eng{fill:#12301d;stroke:#6cc78e}text{fill:#e6ebf2}.s,.l{fill:#a9b6c6}
.l{stroke:#12161c}.e{stroke:#a9b6c6}.a{fill:#a9b6c6}}"""
DESCRIPTION = """\
Clients talk to the API. API, scheduler and workers meet in Postgres; Redis only rings. The inference worker starts a
gateway with an engine, and the load generator, which measures the engine. Storage holds payloads. Below, the rooms of
the shared library in layers, the services and the plugins."""
_FONT = 'font-family="system-ui, sans-serif"'
_ARROW = """\
<defs><marker id="a" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto-start-reverse">
<path class="a" d="M0 0 8 4 0 8z"/></marker></defs>"""


@dataclass(frozen=True, slots=True)
class Box:
    """A process, or something that keeps."""

    title: str
    lines: tuple[str, ...]
    corner: tuple[int, int]
    kind: str
    """Class of its colours."""


@dataclass(frozen=True, slots=True)
class Edge:
    """Who talks to whom; the label stands where no other line and no box is."""

    label: str
    path: str
    at: tuple[int, int]
    goes_both_ways: bool = False


BOXES = (
    Box("Clients", ("command line, Python,", "curl, a browser"), (40, 40), ""),
    Box("Redis", ("doorbells, wake-ups, progress:", "hints, never the truth"), (440, 40), "data"),
    Box("Scheduler", ("a loop around a pure decide(),", "only writer of assignments"), (840, 40), "svc"),
    Box("API", ("REST, live feed, pages;", "one transaction a request"), (40, 200), "svc"),
    Box("Postgres", ("the truth: runs, steps, jobs, claims,", "facts, events, manifests"), (440, 200), "data"),
    Box("Evaluation worker", ("INDEX: the samples of a dataset", "SCORE: metrics, stop rules"), (840, 200), "svc"),
    Box("Inference worker", ("GENERATE and JUDGE: bring up,", "keep, plan, drive, close"), (40, 360), "svc"),
    Box("Storage", ("a folder: images, chunks,", "measures, summaries, reports"), (440, 360), "data"),
    Box("Reporting worker", ("REPORT: the summary of a run,", "reports, comparisons"), (840, 360), "svc"),
    Box("Gateway", ("an adapter; loads a model,", "speaks OpenAI's chat"), (40, 520), "eng"),
    Box("Engine", ("transformers, vLLM, llama.cpp …:", "in an environment of its own"), (440, 520), "eng"),
    Box("Load generator", ("the only clock: scheduled, sent,", "every token; seals segments"), (840, 520), "eng"),
)
EDGES = (
    Edge("HTTP, WebSocket", "M160 124V200", (160, 166)),
    Edge("transactions", "M280 242H440", (360, 246)),
    Edge("wake, progress", "M280 220H320V82H440", (320, 155), goes_both_ways=True),
    Edge("wake, rings", "M680 82H840", (760, 86), goes_both_ways=True),
    Edge("a window of jobs, assignments", "M900 124V162H640V200", (770, 166), goes_both_ways=True),
    Edge("claims, measures", "M840 242H680", (760, 246)),
    Edge("manifests, measures", "M840 270H810V380H680", (810, 342)),
    Edge("claims, facts", "M900 360V306H640V284", (715, 310)),
    Edge("claims, facts", "M280 376H330V268H440", (330, 326)),
    Edge("chunks", "M280 414H440", (360, 418)),
    Edge("summary, reports", "M840 414H680", (760, 418)),
    Edge("starts", "M110 444V520", (110, 486)),
    Edge("a plan with its bodies; sealed segments", "M220 444V482H960V520", (590, 486), goes_both_ways=True),
    Edge("starts", "M280 562H440", (360, 566)),
    Edge("requests", "M840 562H680", (760, 566)),
)


def layers(root: Path = ROOT) -> list[list[str]]:
    """Return the rooms of the shared library from top to bottom, as the import contract has them."""
    contracts = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    (found,) = (contract["layers"] for contract in contracts if contract["name"] == ROOMS)
    return [layer.split(" | ") for layer in found]


def members(folder: str, root: Path = ROOT) -> list[str]:
    """Return the members of the workspace in a folder."""
    return [path.parent.name for path in sorted((root / folder).glob("*/pyproject.toml"))]


def drawn(root: Path = ROOT) -> str:
    """Return the picture."""
    rooms = layers(root)
    lists = (("Services", "svc", members("services", root)), ("Plugins", "eng", members("shared/plugins", root)))
    rows = max(len(rooms), sum(len(names) + 1 for _, _, names in lists))
    height = _ROOMS_TOP + rows * (_LAYER_HEIGHT + _GAP) + 40
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" {_FONT}>',
        f"<title>Architecture of VLMHyperBench</title>\n<desc>{escape(DESCRIPTION)}</desc>",
        f"<style>\n{STYLE}\n</style>\n{_ARROW}",
        f'<rect class="bg" width="{WIDTH}" height="{height}"/>',
        *map(_line, EDGES),
        *(part for box in BOXES for part in _box(box)),
        *(_text(*edge.at, edge.label, "l") for edge in EDGES),
        *_rooms(rooms),
        *_lists(lists),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _rooms(rooms: Sequence[Sequence[str]]) -> Iterator[str]:
    middle = _ROOMS_LEFT + _ROOMS_WIDTH // 2
    yield _text(middle, _ROOMS_TOP - 28, "The shared library: a room imports only rooms below its own", "h")
    for no, layer in enumerate(rooms):
        yield from _row(layer, left=_ROOMS_LEFT, width=_ROOMS_WIDTH, y=_y(no))


def _lists(lists: Sequence[tuple[str, str, Sequence[str]]]) -> Iterator[str]:
    row = 0
    for title, kind, names in lists:
        y = _ROOMS_TOP - 28 if row == 0 else _y(row) + 20
        yield _text(_LIST_LEFT + _LIST_WIDTH // 2, y, title, "h")
        first = row if row == 0 else row + 1
        for no, name in enumerate(names):
            yield from _row([name], left=_LIST_LEFT, width=_LIST_WIDTH, y=_y(first + no), kind=kind)
        row = first + len(names)


def _row(names: Sequence[str], *, left: int, width: int, y: int, kind: str = "") -> Iterator[str]:
    each = (width - _GAP * (len(names) - 1)) // len(names)
    for no, name in enumerate(names):
        x = left + no * (each + _GAP)
        yield f'<rect class="box {kind}" x="{x}" y="{y}" width="{each}" height="{_LAYER_HEIGHT}" rx="6"/>'
        yield _text(x + each // 2, y + 20, name, "s")


def _y(row: int) -> int:
    return _ROOMS_TOP + row * (_LAYER_HEIGHT + _GAP)


def _box(box: Box) -> Iterator[str]:
    (x, y), (width, height) = box.corner, _BOX
    yield f'<rect class="box {box.kind}" x="{x}" y="{y}" width="{width}" height="{height}" rx="8"/>'
    yield _text(x + width // 2, y + 26, box.title, "h")
    for no, line in enumerate(box.lines):
        yield _text(x + width // 2, y + 47 + 18 * no, line, "s")


def _line(edge: Edge) -> str:
    return f'<path class="e{" b" if edge.goes_both_ways else ""}" d="{edge.path}"/>'


def _text(x: int, y: int, text: str, kind: str) -> str:
    return f'<text class="{kind}" x="{x}" y="{y}" text-anchor="middle">{escape(text)}</text>'


if __name__ == "__main__":
    PICTURE.write_text(drawn(), encoding="utf-8")
