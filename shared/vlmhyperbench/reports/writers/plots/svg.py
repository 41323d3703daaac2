"""Turn matplotlib's SVG into one that follows the reader's light or dark theme and has a description in words.

Colours become classes (`palette.css_classes`), inline styles become attributes, so that a page may forbid inline
styles, and ids carry the figure's name, so that several figures live in one page. The same spec gives the same bytes.
"""

from __future__ import annotations

import io
import re
from dataclasses import dataclass
from xml.etree import ElementTree

import matplotlib as mpl
from matplotlib.backends.backend_svg import FigureCanvasSVG

from vlmhyperbench.analysis.figures import FigureSpec
from vlmhyperbench.reports.writers.plots.palette import DARK, LIGHT, css, css_classes
from vlmhyperbench.reports.writers.plots.static import drawing_style, to_matplotlib

_SVG = "http://www.w3.org/2000/svg"
_LINK = "{http://www.w3.org/1999/xlink}href"
_NAME_OF = {colour: name for name, colour in LIGHT.items()}
_FONTS = "system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',Arial,sans-serif"
_NUMBER = re.compile(r"-?\d+\.\d{3,}")
_DROPPED = {"font", "font-family", "font-stretch", "font-style", "font-variant", "font-weight", "stroke-linejoin"}

ElementTree.register_namespace("", _SVG)
ElementTree.register_namespace("xlink", "http://www.w3.org/1999/xlink")


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """A figure, drawn once."""

    inline: str
    """An `<svg>` element for a page that defines the palette's properties and classes."""
    file: bytes
    """A stand-alone SVG file that carries both themes and its own background."""


def to_svg(spec: FigureSpec) -> Drawing:
    """Draw a figure for a page and as a file."""
    root = _themed(spec)
    inline = ElementTree.tostring(root, encoding="unicode")
    style = ElementTree.Element(f"{{{_SVG}}}style")
    style.text = (
        f"svg{{{css(LIGHT)}font-family:{_FONTS}}}"
        f"@media (prefers-color-scheme:dark){{svg{{{css(DARK)}}}}}{css_classes()}"
    )
    background = ElementTree.Element(
        f"{{{_SVG}}}rect", {"width": "100%", "height": "100%", "class": "fig-fill-paper", "rx": "6"}
    )
    root.insert(2, style)
    root.insert(3, background)
    _, _, width, height = root.attrib["viewBox"].split()
    root.attrib |= {"width": width, "height": height}
    text = ElementTree.tostring(root, encoding="unicode")
    return Drawing(inline=inline, file=f"<?xml version='1.0' encoding='utf-8'?>\n{text}\n".encode())


def _themed(spec: FigureSpec) -> ElementTree.Element:
    drawn, box = _drawn(spec)
    root = ElementTree.fromstring(drawn)  # noqa: S314 -- matplotlib has just written it
    for child in list(root):
        if child.tag in {f"{{{_SVG}}}metadata", f"{{{_SVG}}}defs"}:
            root.remove(child)
    for element in root.iter():
        _restyle(element)
        if "d" in element.attrib:
            element.set("d", _NUMBER.sub(_rounded, " ".join(element.attrib["d"].split())))
        _rename(element, spec.name)
    for key in ("width", "height", "version"):
        root.attrib.pop(key, None)
    root.attrib |= {
        "role": "img",
        "aria-labelledby": f"{spec.name}-t {spec.name}-d",
        "class": "figure",
        "data-box": " ".join(f"{number:.6g}" for number in box),
    }
    title = ElementTree.Element(f"{{{_SVG}}}title", {"id": f"{spec.name}-t"})
    title.text = spec.title
    description = ElementTree.Element(f"{{{_SVG}}}desc", {"id": f"{spec.name}-d"})
    description.text = spec.alt
    root.insert(0, title)
    root.insert(1, description)
    return root


def _drawn(spec: FigureSpec) -> tuple[str, tuple[float, float, float, float]]:
    """Return the SVG and its x axis: left and right edge in the picture, and the values at the edges."""
    buffer = io.StringIO()
    figure = to_matplotlib(spec)
    with drawing_style(), mpl.rc_context({"svg.hashsalt": spec.name}):
        # `savefig` draws everything once more to find the layout, which drawing does anyway.
        about = {"Date": None, "Creator": None, "Format": None, "Type": None}
        FigureCanvasSVG(figure).print_svg(buffer, metadata=about)  # type: ignore[no-untyped-call]  # has no annotations
    axes = figure.axes[0]
    box, width = axes.get_position(), figure.get_figwidth() * 72
    low, high = axes.get_xlim()
    return buffer.getvalue(), (box.x0 * width, box.x1 * width, low, high)


def _restyle(element: ElementTree.Element) -> None:
    style = element.attrib.pop("style", None)
    if style is None:
        return
    classes = []
    for declaration in style.split(";"):
        key, _, value = (part.strip() for part in declaration.partition(":"))
        if key in {"fill", "stroke"} and value in _NAME_OF:
            classes.append(f"fig-{'fill' if key == 'fill' else 'line'}-{_NAME_OF[value]}")
        elif key and key not in _DROPPED:
            element.set(key, value)
    if classes:
        element.set("class", " ".join(classes))


def _rounded(number: re.Match[str]) -> str:
    return f"{float(number[0]):.2f}".rstrip("0").rstrip(".")


def _rename(element: ElementTree.Element, name: str) -> None:
    if "id" in element.attrib:
        element.set("id", f"{name}-{element.attrib['id']}")
    if _LINK in element.attrib:
        element.set(_LINK, f"#{name}-{element.attrib[_LINK].removeprefix('#')}")
    for key in ("clip-path",):
        if element.attrib.get(key, "").startswith("url(#"):
            element.set(key, f"url(#{name}-{element.attrib[key].removeprefix('url(#')}")
