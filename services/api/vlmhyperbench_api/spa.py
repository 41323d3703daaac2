"""Serve the built dashboard under every address that no other route has; without a build, say how to get one.

Its files are public: they hold no data, and a browser without a session needs them to say how to sign in.
"""

from __future__ import annotations

import gzip
import re
from importlib.resources import files
from pathlib import Path

from fastapi import APIRouter, Request
from fastapi.routing import APIRoute
from starlette.datastructures import Headers
from starlette.responses import FileResponse, HTMLResponse, Response
from starlette.routing import Match
from starlette.types import Scope

from vlmhyperbench.errors import NotFound
from vlmhyperbench_api.html import message_page, page_policy
from vlmhyperbench_api.security import PUBLIC

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
    "font-src 'self'; connect-src 'self'; frame-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""Content security policy of the dashboard: scripts from its own files only, and nothing from elsewhere.

Style elements are allowed because Mantine writes its variables, Plotly its rules and scroll locks theirs at run time.
"""
_SUFFIXES = {"br": ".br", "gzip": ".gz"}
"""Content codings in which the build has its text, best first; fonts are compressed already."""
_MEDIA_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".woff2": "font/woff2",
}
_OTHERS = ("/api/", "/assets/", "/files/", "/reports/")
"""Beginnings of addresses that are never pages of the dashboard."""
_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]*")
_COMMON = {"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer"}
_NO_BUILD = "The dashboard is not built on this machine."
_HOW_TO_BUILD = (
    "Run `make dashboard` in the checkout and reload this page. The API, the command line and all reports work without."
)


class BrowserRoute(APIRoute):
    """A route that only exists for browsers which ask for a page, so that programs get a 404 for a wrong address."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Match requests for HTML outside of the API."""
        if scope["type"] != "http" or scope["method"] != "GET" or scope["path"].startswith(_OTHERS):
            return Match.NONE, {}
        if "text/html" not in Headers(scope=scope).get("accept", ""):
            return Match.NONE, {}
        return super().matches(scope)


router = APIRouter(include_in_schema=False)
pages = APIRouter(include_in_schema=False, route_class=BrowserRoute)


@router.get("/assets/{name}", dependencies=[PUBLIC])
async def asset(name: str, request: Request) -> Response:
    """Return a file of the build in a coding that the client accepts; its name contains a hash of its content."""
    path = static() / "assets" / name
    headers = {**_COMMON, "Cache-Control": "public, max-age=31536000, immutable", "Vary": "Accept-Encoding"}
    media_type = _MEDIA_TYPES.get(path.suffix)
    if media_type is None or not _NAME.fullmatch(name):
        raise _missing()
    if path.is_file():
        return FileResponse(path, media_type=media_type, headers=headers)
    forms = {coding: path.with_name(name + suffix) for coding, suffix in _SUFFIXES.items()}
    if not forms["gzip"].is_file():
        raise _missing()
    accepted = {part.partition(";")[0].strip() for part in request.headers.get("accept-encoding", "").split(",")}
    for coding in (coding for coding, form in forms.items() if coding in accepted and form.is_file()):
        return FileResponse(forms[coding], media_type=media_type, headers={**headers, "Content-Encoding": coding})
    return Response(gzip.decompress(forms["gzip"].read_bytes()), media_type=media_type, headers=headers)


@pages.get("/{page:path}", dependencies=[PUBLIC])
async def dashboard() -> Response:
    """Return the dashboard, which reads from the address what to show."""
    index = static() / "index.html"
    if not index.is_file():
        headers = {**_COMMON, "Content-Security-Policy": page_policy(), "Cache-Control": "no-store"}
        return HTMLResponse(message_page(_NO_BUILD, _HOW_TO_BUILD), status_code=503, headers=headers)
    headers = {**_COMMON, "Cache-Control": "no-cache", "Content-Security-Policy": POLICY}
    return FileResponse(index, media_type=_MEDIA_TYPES[".html"], headers=headers)


def static() -> Path:
    """Return the folder of the build."""
    return Path(str(files("vlmhyperbench_api"))) / "static"


def _missing() -> NotFound:
    return NotFound("There is no such file of the dashboard.", cure="Reload the page: the dashboard was updated.")
