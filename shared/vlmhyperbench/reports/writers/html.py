"""Write a document as a self-contained HTML file that makes no request and in which texts from models stay texts.

The policy allows one style sheet and two scripts, by their hashes, and images that are in the page; Jinja2 escapes
every value. The scripts only add convenience (filters, enlarging, reading values off curves, exploring a figure): the
page is complete without them, and on paper. Plotly is compressed in the page and runs only when a reader explores a
figure.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from importlib.resources import files

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from vlmhyperbench.reports.document import (
    Block,
    Cell,
    Document,
    Estimate,
    SampleTable,
    write_cell,
    write_estimate,
    write_interval,
)
from vlmhyperbench.reports.writers.plots import Drawing, to_plotly
from vlmhyperbench.reports.writers.plots.palette import DARK, LIGHT, css_classes, rgb
from vlmhyperbench.reports.writers.thumbnails import Thumbnail
from vlmhyperbench.reports.writers.vendored import plotly
from vlmhyperbench_sdk.types import JsonValue

MAX_BYTES = 10_000_000
"""Maximum size of a report, with all its images and samples."""
OPEN_FIGURES = 1
"""Number of figures of a section that are not folded."""
OPEN_CASES = 6
"""Number of cases of a block that are not folded."""
_EMPTY_STYLE = "sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="
"""Hash of an empty style element: Plotly makes one and fills it by the CSSOM, to which no policy applies."""


def to_html(document: Document, *, drawings: Mapping[str, Drawing], thumbnails: Mapping[str, Thumbnail]) -> bytes:
    """Return the page.

    Args:
        document: the report.
        drawings: figure's name → its drawing (`plots.to_svg`), for every figure.
        thumbnails: an image's content hash → its picture; an image without a picture is named instead.
    """
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    template = environment.from_string(_resource("report.html.j2"))
    style = _theme() + _resource("report.css")
    script = _resource("report.js") + _resource("samples.js")
    page = template.render(
        document=document,
        thumbnails=thumbnails,
        policy=_policy(style=style, script=script, library=plotly().sha256),
        style=Markup(style),  # noqa: S704 -- our own file
        script=Markup(script),  # noqa: S704 -- our own file
        library=plotly(),
        embedded=Markup(embed(_embedded(document))),  # noqa: S704 -- escaped by embed
        pictures=Markup(embed(_further(document, thumbnails))),  # noqa: S704 -- escaped by embed
        table_packed=_packed_samples(document),
        open_figures=OPEN_FIGURES,
        open_cases=OPEN_CASES,
        is_first=_first_time(),
        drawn={name: Markup(drawing.inline) for name, drawing in drawings.items()},  # noqa: S704 -- escaped by to_svg
        kind_of=_kind_of,
        is_estimate=_is_estimate,
        interval_bar=_interval_bar,
        write_cell=write_cell,
        write_estimate=write_estimate,
        write_interval=write_interval,
    )
    return page.replace("\0", "\N{REPLACEMENT CHARACTER}").encode()  # HTML has no NUL; answers may


def embed(value: JsonValue) -> str:
    """Write JSON that is safe in a script element of any type: tags, comments and line separators are escaped."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True, allow_nan=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _policy(*, style: str, script: str, library: str) -> str:
    scripts = f"'{_source(_digest(script))}' '{_source(bytes.fromhex(library))}'"
    return (
        f"default-src 'none'; img-src data:; style-src '{_source(_digest(style))}' '{_EMPTY_STYLE}'; "
        f"script-src {scripts}; base-uri 'none'; form-action 'none'"
    )


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


def _source(digest: bytes) -> str:
    return f"sha256-{base64.b64encode(digest).decode()}"


def _theme() -> str:
    pairs = "".join(f"--fig-{name}:light-dark({LIGHT[name]},{DARK[name]});" for name in LIGHT)
    return f":root{{{pairs}}}{css_classes()}\n"


def _embedded(document: Document) -> JsonValue:
    return {
        "headline": [dict(row) for row in document.headline],
        "figures": {figure.name: to_plotly(figure) for figure in document.figures},
        "dark": {write(LIGHT[name]): write(DARK[name]) for name in LIGHT for write in (str, rgb)},
    }


def _further(document: Document, thumbnails: Mapping[str, Thumbnail]) -> JsonValue:
    """Return the pages that only the table of samples shows."""
    return {image: thumbnails[image].data_url for image in document.further_images if image in thumbnails}


def _packed_samples(document: Document) -> str:
    """Write the samples as compressed JSON in base 64; 20,000 samples take a tenth of their size."""
    tables = [block for section in document.sections for block in section.blocks if isinstance(block, SampleTable)]
    text = json.dumps([asdict(table) for table in tables], ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return base64.b64encode(gzip.compress(text.encode(errors="replace"), mtime=0)).decode()


def _first_time() -> Callable[[str], bool]:
    """Return a function that says whether it sees a text for the first time, so that a page is in the file once."""
    seen: set[str] = set()

    def is_first(text: str) -> bool:
        is_new = text not in seen
        seen.add(text)
        return is_new

    return is_first


def _kind_of(block: Block) -> str:
    return type(block).__name__


def _is_estimate(cell: Cell) -> bool:
    return isinstance(cell, Estimate)


def _interval_bar(estimate: Estimate) -> dict[str, float | None] | None:
    """Return the position of an interval on its scale, in percent of the width; None if nothing is drawn."""
    if estimate.scale is None or estimate.value is None or estimate.low is None or estimate.high is None:
        return None
    low, high = estimate.scale

    def position(value: float) -> float:
        return round(100 * min(1.0, max(0.0, (value - low) / (high - low))), 1)

    return {
        "low": position(estimate.low),
        "at": position(estimate.value),
        "high": position(estimate.high),
        "zero": position(0.0) if low < 0 < high else None,
    }


def _resource(name: str) -> str:
    return (files("vlmhyperbench.reports.writers") / "templates" / name).read_text(encoding="utf-8")
