"""Render the pages that need no dashboard: a message, and the files of a report; text is escaped, without scripts."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from functools import cache
from importlib.resources import files

from jinja2 import Environment, FunctionLoader, StrictUndefined, Template

from vlmhyperbench.db.views import ArtifactView


def files_page(name: str, shown: Sequence[ArtifactView]) -> str:
    """Return the page that lists the files of a report without an HTML page."""
    return _write("files.html.j2", name=name, files=shown)


def message_page(message: str, cure: str) -> str:
    """Return an error page with a message and its cure."""
    return _write("message.html.j2", message=message, cure=cure)


def page_policy() -> str:
    """Return the content security policy of these pages: one inline style sheet and nothing else."""
    return (
        f"default-src 'none'; style-src 'sha256-{_style()[1]}'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    )


def number(value: int) -> str:
    """Format a count with narrow spaces as group separators."""
    return f"{value:,}".replace(",", "\u202f")


def _write(template: str, **values: object) -> str:
    return _template(template).render(style=_style()[0], number=number, **values)


@cache
def _template(name: str) -> Template:
    loader = FunctionLoader(_resource)
    return Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    ).get_template(name)


@cache
def _style() -> tuple[str, str]:
    """Return the style sheet and its digest."""
    text = _resource("page.css")
    return text, base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _resource(name: str) -> str:
    return (files("vlmhyperbench_api") / "templates" / name).read_text(encoding="utf-8")
