"""`up`, `down` and `status`: start, stop and describe the embedded stack."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Annotated

from cyclopts import Parameter

from vlmhyperbench.cli import exits
from vlmhyperbench.cli.groups import STACK
from vlmhyperbench.cli.output import emit, note, say, table
from vlmhyperbench.cli.output_flags import TEXT, OutputFlags
from vlmhyperbench.cli.platform import mebibytes, missing_parts, platform_lines, quarantined, read_numbers, say_workers
from vlmhyperbench.cli.status_elsewhere import status_elsewhere
from vlmhyperbench.errors import VlmHyperBenchError
from vlmhyperbench.local.listening import Listening
from vlmhyperbench.local.supervisor import control
from vlmhyperbench.local.supervisor.home import Home
from vlmhyperbench.local.supervisor.storing import check_storage
from vlmhyperbench.settings import Settings
from vlmhyperbench.wire.placement import Drain
from vlmhyperbench.wire.workers import Worker


def up(
    *,
    foreground: Annotated[bool, Parameter(group=STACK)] = False,
    services: Annotated[tuple[str, ...], Parameter(group=STACK, consume_multiple=True)] = (),
    listen: Annotated[str | None, Parameter(group=STACK)] = None,
    output: OutputFlags = TEXT,
) -> int:
    """Start the embedded stack (database, broker, API, scheduler, workers) and wait until it is ready.

    Its data is in the folder VLMHB_HOME, and its API listens on port VLMHB_API_PORT (8760 by default).

    Args:
        foreground: Run in the foreground; Ctrl-C stops the stack.
        services: Start only these services: scheduler, api, evaluation, reporting, inference. The others can run on
            other machines, as `vlmhyperbench worker`.
        listen: Address of this machine, with a port (8770 by default), at which other machines reach the stack by TLS:
            the API there, Postgres and Redis at the next two ports. By default only this machine reaches it.
        output: How the output is printed.
    """
    settings = Settings.load()
    home = Home(settings.home)
    if foreground:
        return _serve(home, settings, services, listen, output)
    started = start(home, settings, output=output, services=services, listen=listen)
    text = (
        f"The stack is ready at {home.api_url()}." if started else f"The stack is already running at {home.api_url()}."
    )
    if output.json:
        emit("stack", _with_page(home), warnings=[] if started else [text])
    else:
        say(text)
        say_page(home)
    return exits.OK


def down(*, output: OutputFlags = TEXT) -> int:
    """Stop the embedded stack. Workers first finish the requests in flight; runs continue with the next `up`."""
    home = Home(Settings.load().home)
    note("Stopping the stack …", output)
    stopped = control.down(home)
    if output.json:
        emit("stack", control.status(home), warnings=[] if stopped else ["No stack was running."])
    else:
        say("The stack has stopped." if stopped else f"No stack is running in {home.root}.")
    return exits.OK


def status(*, output: OutputFlags = TEXT) -> int:
    """Show the processes of the embedded stack, the devices of its workers, and what is drained, by whom and why.

    Of a stack elsewhere, whose API VLMHB_API_URL names, all of that but the processes. The exit code is 3 if the stack
    is not running, or if its API or its database does not answer.
    """
    home = Home(Settings.load().home)
    if (elsewhere := os.environ.get("VLMHB_API_URL")) and elsewhere.rstrip("/") != home.api_url():
        return status_elsewhere(elsewhere, output)
    stack = control.status(home)
    missing = missing_parts(home) if stack.is_up else []
    is_ready = stack.is_up and not missing
    workers = _inference_workers(home) if is_ready else []
    drained = _drained(home) if is_ready else []
    numbers = read_numbers(home) if is_ready else []
    problems = [*missing, *quarantined(workers), *_problems()]
    if output.json:
        shown: dict[str, object] = {
            "workers": [worker.model_dump(mode="json") for worker in workers],
            "drained": [drain.model_dump(mode="json") for drain in drained],
            "numbers": [asdict(number) for number in numbers],
        }
        emit("stack", {**_with_page(home, is_ready=is_ready), **shown}, warnings=problems)
        return exits.OK if is_ready else exits.SETUP
    if not stack.is_up:
        say(f"No stack is running in {stack.home}. Start one with `vlmhyperbench up`.")
        return exits.SETUP
    say(f"{stack.url}  (home {stack.home})")
    if is_ready:
        say_page(home)
    rows = [
        (process.name, process.pid, process.state, process.restarts, mebibytes(process.pss_bytes))
        for process in stack.processes
    ]
    table(["process", "pid", "state", "restarts", "memory"], rows, right=["pid", "restarts", "memory"])
    total_bytes = sum(process.pss_bytes or 0 for process in stack.processes)
    say(f"total memory (proportional set size): {mebibytes(total_bytes)}")
    for line in platform_lines(numbers):
        say(line)
    say_workers(workers, drained)
    for problem in problems:
        note(f"warning: {problem}", output)
    return exits.OK if is_ready else exits.SETUP


def _inference_workers(home: Home) -> list[Worker]:
    """Return the inference workers of the stack; none if the API does not answer."""
    from vlmhyperbench.client import Client

    url, key = home.api_url(), home.api_key()
    if url is None or key is None:
        return []
    try:
        with Client(url, key) as client:
            return [worker for worker in client.workers().items if worker.devices]
    except VlmHyperBenchError:
        return []


def _problems() -> list[str]:
    """Return the registry entries that cannot be used, with their errors."""
    from vlmhyperbench.cli.registry import open_catalogue

    try:
        return [f"a registry entry cannot be used: {error}" for error in open_catalogue().errors]
    except VlmHyperBenchError as error:
        return [error.message]


def start(
    home: Home,
    settings: Settings,
    *,
    output: OutputFlags,
    services: Sequence[str] = (),
    listen: str | None = None,
    is_tied: bool = False,
) -> bool:
    """Start the stack and print its progress; return False if it was already running."""

    def report(message: Mapping[str, str]) -> None:
        if message.get("event") == "starting":
            note(f"  starting {message.get('what', '')}", output)
        elif "listening" in message:
            note(_joining(message), output)

    for name in ("VLMHB_DATABASE_URL", "VLMHB_REDIS_URL"):
        if os.environ.get(name):
            note(f"warning: {name} is not used: the embedded stack starts a server of its own.", output)
    return control.up(
        home,
        host=settings.api_host,
        port=settings.api_port,
        services=services,
        listen=listen,
        is_tied=is_tied,
        report=report,
    )


def page_link(home: Home) -> str | None:
    """Return a one-time URL that opens the dashboard in a browser; None if the API does not answer."""
    from vlmhyperbench.client import Client

    url, key = home.api_url(), home.api_key()
    if url is None or key is None:
        return None
    try:
        with Client(url, key) as client:
            return url + client.browser_ticket().path
    except VlmHyperBenchError:
        return None


def say_page(home: Home, print_line: Callable[[str], None] = say) -> None:
    """Print a one-time URL of the dashboard, if the API answers."""
    link = page_link(home)
    if link is not None:
        print_line(f"Dashboard (the link works once, within ten minutes): {link}")


def _drained(home: Home) -> Sequence[Drain]:
    """Return what is drained; nothing if the API does not answer."""
    from vlmhyperbench.client import Client

    url, key = home.api_url(), home.api_key()
    if url is None or key is None:
        return []
    try:
        with Client(url, key) as client:
            return client.drains().items
    except VlmHyperBenchError:
        return []


def _with_page(home: Home, *, is_ready: bool = True) -> dict[str, object]:
    stack = control.status(home)
    return {**asdict(stack), "page": page_link(home) if stack.is_up and is_ready else None}


def _joining(message: Mapping[str, str]) -> str:
    return (
        f"Other machines reach the stack at {message['listening']}; they need a copy of {message['ca_file']} and a "
        "token from `vlmhyperbench workers token create`."
    )


def _serve(home: Home, settings: Settings, services: Sequence[str], listen: str | None, output: OutputFlags) -> int:
    from vlmhyperbench.local.supervisor.__main__ import ALREADY_RUNS, serve

    def report(message: Mapping[str, str]) -> None:
        match message["event"]:
            case "ready":
                if output.json:
                    emit("stack", {**message, "page": page_link(home)})
                else:
                    say(f"The stack is ready at {message['url']}.")
                    if "listening" in message:
                        say(_joining(message))
                    say_page(home)
            case "failed":
                note(f"error: {message['message']} {message['cure']}")
            case "starting":
                note(f"  starting {message['what']}", output)
            case "already":
                say(f"The stack is already running at {home.api_url()}.")
            case other:
                note(f"  {other}", output)

    listening = Listening.parse(listen) if listen is not None else None
    if not control.is_up(home):
        check_storage(home)
    result = serve(
        home,
        host=settings.api_host,
        port=settings.api_port,
        services=services,
        listening=listening,
        report=report,
    )
    return exits.OK if result == ALREADY_RUNS else result
