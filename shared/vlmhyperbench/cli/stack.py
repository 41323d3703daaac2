"""`up`, `down` and `status`: the embedded stack."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Annotated

from cyclopts import Parameter

from vlmhyperbench.cli import exits
from vlmhyperbench.cli.groups import STACK
from vlmhyperbench.cli.output import emit, note, say, table
from vlmhyperbench.cli.shown import HUMAN, Shown
from vlmhyperbench.errors import VlmHyperBenchError
from vlmhyperbench.local.supervisor import control
from vlmhyperbench.local.supervisor.home import Home
from vlmhyperbench.settings import Settings


def up(
    *,
    foreground: Annotated[bool, Parameter(group=STACK)] = False,
    services: Annotated[tuple[str, ...], Parameter(group=STACK, consume_multiple=True)] = (),
    shown: Shown = HUMAN,
) -> int:
    """Start the embedded stack and wait until it is ready.

    Args:
        foreground: Run in the foreground, and stop the stack on Ctrl-C.
        services: Only these services, for a machine whose workers run elsewhere.
        shown: How the answer is shown.
    """
    settings = Settings.load()
    home = Home(settings.home)
    if foreground:
        return _serve(home, settings, services, shown)
    started = start(home, settings, shown=shown, services=services)
    text = f"The stack is ready at {home.api_url()}." if started else f"The stack already runs at {home.api_url()}."
    if shown.json:
        emit("stack", _with_page(home), warnings=[] if started else [text])
    else:
        say(text)
        say_page(home)
    return exits.OK


def down(*, shown: Shown = HUMAN) -> int:
    """Stop the embedded stack: workers finish their chunk first."""
    home = Home(Settings.load().home)
    note("Stopping the stack …", shown)
    stopped = control.down(home)
    if shown.json:
        emit("stack", control.status(home), warnings=[] if stopped else ["No stack was running."])
    else:
        say("The stack has stopped." if stopped else f"No stack runs in {home.root}.")
    return exits.OK


def status(*, shown: Shown = HUMAN) -> int:
    """Show each process of the embedded stack: pid, state, restarts, memory."""
    home = Home(Settings.load().home)
    found = control.status(home)
    problems = _problems()
    if shown.json:
        emit("stack", _with_page(home), warnings=problems)
        return exits.OK if found.is_up else exits.SETUP
    if not found.is_up:
        say(f"No stack runs in {found.home}. Start one with `vlmhyperbench up`.")
        return exits.SETUP
    say(f"{found.url}  (home {found.home})")
    say_page(home)
    rows = [
        (process.name, process.pid, process.state, process.restarts, _mebibytes(process.pss_bytes))
        for process in found.processes
    ]
    table(["process", "pid", "state", "restarts", "memory"], rows, right=["pid", "restarts", "memory"])
    say(f"memory of all processes (PSS): {_mebibytes(sum(process.pss_bytes or 0 for process in found.processes))}")
    for problem in problems:
        note(f"warning: {problem}", shown)
    return exits.OK


def _problems() -> list[str]:
    """Say which registry entries cannot be used."""
    from vlmhyperbench.cli.registry import open_catalogue

    try:
        return [f"a registry entry cannot be used: {error}" for error in open_catalogue().errors]
    except VlmHyperBenchError as error:
        return [error.message]


def start(home: Home, settings: Settings, *, shown: Shown, services: Sequence[str] = (), is_tied: bool = False) -> bool:
    """Bring the stack up with lines of progress; False where it already ran."""

    def tell(message: Mapping[str, str]) -> None:
        if message.get("event") == "starting":
            note(f"  starting {message.get('what', '')}", shown)

    return control.up(
        home, host=settings.api_host, port=settings.api_port, services=services, is_tied=is_tied, tell=tell
    )


def page_link(home: Home) -> str | None:
    """Return an address that opens the stack's page in one browser, once; None where no API answers."""
    from vlmhyperbench.client import Client

    url, key = home.api_url(), home.api_key()
    if url is None or key is None:
        return None
    try:
        with Client(url, key) as client:
            return url + client.browser_ticket().path
    except VlmHyperBenchError:
        return None


def say_page(home: Home, tell: Callable[[str], None] = say) -> None:
    """Print such an address, where there is one."""
    link = page_link(home)
    if link is not None:
        tell(f"Open it in a browser (once, within ten minutes): {link}")


def _with_page(home: Home) -> dict[str, object]:
    found = control.status(home)
    return {**asdict(found), "page": page_link(home) if found.is_up else None}


def _serve(home: Home, settings: Settings, services: Sequence[str], shown: Shown) -> int:
    from vlmhyperbench.local.supervisor.__main__ import ALREADY_RUNS, serve

    def report(message: Mapping[str, str]) -> None:
        match message["event"]:
            case "ready":
                if shown.json:
                    emit("stack", {**message, "page": page_link(home)})
                else:
                    say(f"The stack is ready at {message['url']}.")
                    say_page(home)
            case "failed":
                note(f"error: {message['message']} {message['cure']}")
            case "starting":
                note(f"  starting {message['what']}", shown)
            case "already":
                say(f"The stack already runs at {home.api_url()}.")
            case other:
                note(f"  {other}", shown)

    result = serve(home, host=settings.api_host, port=settings.api_port, services=services, report=report)
    return exits.OK if result == ALREADY_RUNS else result


def _mebibytes(size: int | None) -> str | None:
    return None if size is None else f"{size / 2**20:.0f} MiB"
