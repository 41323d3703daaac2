"""`open`: open the dashboard in this machine's browser by a link that signs in once."""

from __future__ import annotations

import os
import sys
import webbrowser
from collections.abc import Mapping
from typing import Annotated
from urllib.parse import quote

from cyclopts import Parameter

from vlmhyperbench.cli import exits
from vlmhyperbench.cli.groups import STACK
from vlmhyperbench.cli.output import emit, note, say
from vlmhyperbench.cli.output_flags import TEXT, OutputFlags
from vlmhyperbench.cli.stack import page_link
from vlmhyperbench.errors import Unavailable
from vlmhyperbench.local.supervisor.home import Home
from vlmhyperbench.settings import Settings


def open_(
    subject_id: str | None = None,
    /,
    *,
    print_only: Annotated[bool, Parameter(group=STACK)] = False,
    output: OutputFlags = TEXT,
) -> int:
    """Open the dashboard of the embedded stack in a browser, signed in; print the link where there is no display.

    Args:
        subject_id: Id of a run or an experiment to show, or its first characters; without it, the first page.
        print_only: Print the link and open nothing.
        output: How the output is printed.
    """
    home = Home(Settings.load().home)
    path = _path(home, subject_id)
    link = page_link(home)
    if link is None:
        raise Unavailable(f"No stack answers in {home.root}.", cure="Start one: vlmhyperbench up")
    target = link if path is None else f"{link}&to={quote(path, safe='')}"
    is_open = not print_only and has_display(os.environ, sys.platform) and webbrowser.open(target)
    if output.json:
        emit("page", {"page": target, "opened": is_open})
    elif is_open:
        note("The dashboard is open in your browser.", output)
    else:
        say(target)
        note("The link works once, within ten minutes.", output)
    return exits.OK


def has_display(environment: Mapping[str, str], platform: str) -> bool:
    """Return whether a browser can show a window here: elsewhere Python would start one in the terminal."""
    return platform in {"darwin", "win32"} or any(environment.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))


def _path(home: Home, subject_id: str | None) -> str | None:
    """Return the dashboard's path of a run or an experiment."""
    from vlmhyperbench.cli.following import find
    from vlmhyperbench.client import Client, RunHandle

    url, key = home.api_url(), home.api_key()
    if subject_id is None or url is None or key is None:
        return None
    with Client(url, key) as client:
        subject = find(client, subject_id)
        return f"/{'runs' if isinstance(subject, RunHandle) else 'experiments'}/{subject.id}"
