"""`demo`: start a stack on this machine, run an experiment, and write its report."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from vlmhyperbench.analysis.gate_policy import GatePolicy
from vlmhyperbench.cli import exits
from vlmhyperbench.cli.compare import compare_all, gate_code, print_comparison
from vlmhyperbench.cli.following import outcome_code
from vlmhyperbench.cli.groups import GATE, OUTPUT, STACK, SUBMISSION
from vlmhyperbench.cli.headline import print_table
from vlmhyperbench.cli.output import emit, note, say
from vlmhyperbench.cli.output_flags import TEXT, OutputFlags
from vlmhyperbench.cli.stack import say_page, start
from vlmhyperbench.cli.watch import describe
from vlmhyperbench.client import Client, ExperimentHandle
from vlmhyperbench.client.steps import measures, save_files
from vlmhyperbench.domain.short_ids import short
from vlmhyperbench.local.supervisor import control
from vlmhyperbench.local.supervisor.home import Home
from vlmhyperbench.registry.policies import read_policy
from vlmhyperbench.reports.comparing import rows
from vlmhyperbench.settings import Settings

EXPERIMENT = "demo"


def demo(
    *,
    keep: Annotated[bool, Parameter(group=STACK)] = False,
    fresh: Annotated[bool, Parameter(group=SUBMISSION)] = False,
    out: Annotated[Path | None, Parameter(group=OUTPUT)] = None,
    experiment: Annotated[str, Parameter(group=SUBMISSION)] = EXPERIMENT,
    gate: Annotated[Path | None, Parameter(group=GATE)] = None,
    output: OutputFlags = TEXT,
) -> int:
    """Start a stack on this machine, compare two small models on document images, and write the report.

    If a demo was interrupted, the next one continues it.

    Args:
        keep: Leave the stack running after the demo.
        fresh: Cancel an interrupted demo and start a new one, instead of continuing it.
        out: Folder for the report; by default a new folder in $VLMHB_HOME/reports.
        experiment: Registered experiment to run.
        gate: YAML file of a gate policy, by which the other runs are compared with the first. The exit code is 5 if a
            run does not meet it.
        output: How the output is printed.
    """
    policy = None if gate is None else read_policy(gate)
    settings = Settings.load()
    home = Home(settings.home)
    note("Starting the stack …", output)
    is_ours = start(home, settings, output=output, is_tied=not keep)
    try:
        return _run(home, out, experiment, policy, is_fresh=fresh, is_kept=keep or not is_ours, output=output)
    except KeyboardInterrupt:
        note("\nInterrupted. To continue: vlmhyperbench demo")
        raise
    finally:
        if is_ours and not keep:
            _stop(home, output)


def _run(
    home: Home,
    out: Path | None,
    experiment: str,
    policy: GatePolicy | None,
    *,
    is_fresh: bool,
    is_kept: bool,
    output: OutputFlags,
) -> int:
    with Client(home.api_url(), home.api_key(), has_ended=lambda: not control.is_up(home)) as client:
        created = _resume_or_create(client, experiment, is_fresh=is_fresh, output=output)
        if output.json:
            emit("launch", created)
        note(f"{created.name}: {len(created.runs)} runs, experiment {created.id}", output)
        say_page(home, lambda line: note(line, output))
        ended = created.wait(progress=output.progress)
        code = outcome_code(ended)
        if code != exits.OK:
            say(describe(ended))
            for run in created.runs:
                say("  " + describe(client.runs.get(run.id)))
            return code
        report = client.report(ended.id)
        main = client.do(save_files(report, out or home.root / "reports" / f"demo-{short(ended.id)}"))
        compared = []
        if policy is not None:
            compared = compare_all([client.do(measures(client.runs.get(run.id))) for run in ended.runs], policy)
    if output.json:
        done = {"experiment": ended.model_dump(mode="json"), "headline": report.headline, "report": str(main)}
        gated = {"comparisons": [rows(comparison) for comparison in compared]} if policy is not None else {}
        emit("done", done | gated)
    else:
        print_table(report.headline)
        for comparison in compared:
            print_comparison(comparison)
        say(f"Open the report: {main}")
        if is_kept:
            say_page(home)
    return gate_code(compared)


def _resume_or_create(client: Client, experiment: str, *, is_fresh: bool, output: OutputFlags) -> ExperimentHandle:
    """Return the interrupted demo, or a new one."""
    for earlier in client.experiments.list(state="OPEN").items:
        if earlier.name != experiment or earlier.is_cancelling:
            continue
        if not is_fresh:
            note(f"{experiment}: continuing the interrupted experiment; --fresh starts a new one", output)
            return client.experiments.get(earlier.id)
        client.experiments.cancel(earlier.id)
    return client.experiments.create(experiment)


def _stop(home: Home, output: OutputFlags) -> None:
    """Stop the stack; Ctrl-C meanwhile kills it and its processes."""
    note("Stopping the stack; Ctrl-C kills it at once …", output)
    try:
        control.down(home)
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        control.kill(home)
        raise
