"""The table of formats in which reports are written."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from types import MappingProxyType

from vlmhyperbench.reports.document import Document
from vlmhyperbench.reports.writers.html import to_html
from vlmhyperbench.reports.writers.json import to_json
from vlmhyperbench.reports.writers.markdown import markdown_files
from vlmhyperbench.reports.writers.plots import Drawing
from vlmhyperbench.reports.writers.thumbnails import Thumbnail

_MEDIA_TYPES = {".md": "text/markdown", ".svg": "image/svg+xml", ".webp": "image/webp"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Pages:
    """The input of a writer."""

    document: Document
    drawings: Mapping[str, Drawing]
    """Figure's name → its drawing (`plots.to_svg`), for every figure."""
    thumbnails: Mapping[str, Thumbnail]
    """An image's content hash → its picture; an image without a picture is named instead of shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenFile:
    """A file of a report."""

    name: str
    media_type: str
    content: bytes


Writer = Callable[[Pages], Sequence[WrittenFile]]


def write_report(pages: Pages, formats: Collection[str]) -> list[WrittenFile]:
    """Return the files of a report in the requested formats; a format of a plugin or a table gives none."""
    return [file for name, write in WRITERS.items() if name in formats for file in write(pages)]


def _html(pages: Pages) -> list[WrittenFile]:
    content = to_html(pages.document, drawings=pages.drawings, thumbnails=pages.thumbnails)
    return [WrittenFile(name="report.html", media_type="text/html", content=content)]


def _json(pages: Pages) -> list[WrittenFile]:
    return [WrittenFile(name="report.json", media_type="application/json", content=to_json(pages.document))]


def _markdown(pages: Pages) -> list[WrittenFile]:
    files = markdown_files(pages.document, drawings=pages.drawings, thumbnails=pages.thumbnails)
    return [
        WrittenFile(name=name, media_type=_MEDIA_TYPES[PurePath(name).suffix], content=content)
        for name, content in files.items()
    ]


WRITERS: Mapping[str, Writer] = MappingProxyType({"html": _html, "json": _json, "markdown": _markdown})
"""Name of a format in a run's `reports` → its writer."""
