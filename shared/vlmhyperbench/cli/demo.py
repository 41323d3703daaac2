"""`demo`: the whole product in one command, on this machine."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from vlmhyperbench.cli import exits
from vlmhyperbench.cli.following import outcome_code
from vlmhyperbench.cli.groups import OUTPUT, STACK, SUBMISSION
from vlmhyperbench.cli.headline import print_table
from vlmhyperbench.cli.output import emit, note, say
from vlmhyperbench.cli.shown import HUMAN, Shown
from vlmhyperbench.cli.stack import say_page, start
from vlmhyperbench.cli.watch import ending
from vlmhyperbench.client import Client, ExperimentHandle
from vlmhyperbench.client.steps import save_files
from vlmhyperbench.domain.short_ids import short
from vlmhyperbench.local.supervisor import control
from vlmhyperbench.local.supervisor.home import Home
from vlmhyperbench.settings import Settings

EXPERIMENT = "demo"


def demo(
    *,
    keep: Annotated[bool, Parameter(group=STACK)] = False,
    fresh: Annotated[bool, Parameter(group=SUBMISSION)] = False,
    out: Annotated[Path | None, Parameter(group=OUTPUT)] = None,
    experiment: Annotated[str, Parameter(group=SUBMISSION)] = EXPERIMENT,
    shown: Shown = HUMAN,
) -> int:
    """Start everything, compare two targets on document images, print the results and the path of the report.

    A demo that was interrupted continues where it stopped; its answers are reused.

    Args:
        keep: Leave the stack running afterwards.
        fresh: Cancel a demo that was interrupted, and start a new one.
        out: Folder for the report; by default a folder in the stack's home.
        experiment: Registered experiment to run.
        shown: How the answer is shown.
    """
    settings = Settings.load()
    home = Home(settings.home)
    note("Starting the stack …", shown)
    is_ours = start(home, settings, shown=shown, is_tied=not keep)
    try:
        return _run(home, out, experiment, is_fresh=fresh, is_kept=keep or not is_ours, shown=shown)
    except KeyboardInterrupt:
        note("\nInterrupted. Resume: vlmhyperbench demo")
        raise
    finally:
        if is_ours and not keep:
            _stop(home, shown)


def _run(home: Home, out: Path | None, experiment: str, *, is_fresh: bool, is_kept: bool, shown: Shown) -> int:
    with Client(home.api_url(), home.api_key()) as client:
        created = _resume_or_create(client, experiment, is_fresh=is_fresh, shown=shown)
        if shown.json:
            emit("launch", created)
        note(f"{created.name}: {len(created.runs)} runs, experiment {created.id}", shown)
        say_page(home, lambda line: note(line, shown))
        ended = created.wait(progress=shown.progress)
        code = outcome_code(ended)
        if code != exits.OK:
            say(ending(ended))
            for run in created.runs:
                say("  " + ending(client.runs.get(run.id)))
            return code
        found = client.report(ended.id)
        main = client.do(save_files(found, out or home.root / "reports" / f"demo-{short(ended.id)}"))
    if shown.json:
        emit("done", {"experiment": ended.model_dump(mode="json"), "headline": found.headline, "report": str(main)})
    else:
        print_table(found.headline)
        say(f"Open the report: {main}")
        if is_kept:
            say_page(home)
    return code


def _resume_or_create(client: Client, experiment: str, *, is_fresh: bool, shown: Shown) -> ExperimentHandle:
    """Return the demo that was interrupted, or a new one."""
    for earlier in client.experiments.list(state="OPEN").items:
        if earlier.name != experiment or earlier.is_cancelling:
            continue
        if not is_fresh:
            note(f"{experiment}: going on with what was interrupted (--fresh begins anew)", shown)
            return client.experiments.get(earlier.id)
        client.experiments.cancel(earlier.id)
    return client.experiments.create(experiment)


def _stop(home: Home, shown: Shown) -> None:
    """Stop the stack; Ctrl-C meanwhile ends it at once, and its processes with it."""
    note("Stopping the stack; Ctrl-C kills it …", shown)
    try:
        control.down(home)
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        control.kill(home)
        raise
