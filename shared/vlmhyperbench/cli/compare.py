"""`compare`: paired differences between runs and a baseline, and a gate for builds."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from vlmhyperbench.analysis.gate_policy import GatePolicy
from vlmhyperbench.cli import exits
from vlmhyperbench.cli.following import find
from vlmhyperbench.cli.groups import GATE, OUTPUT
from vlmhyperbench.cli.output import emit, note, say, table
from vlmhyperbench.cli.output_flags import TEXT, OutputFlags
from vlmhyperbench.cli.paths import exists, is_dir, is_file
from vlmhyperbench.client import Client
from vlmhyperbench.client.comparing import compare as compare_runs
from vlmhyperbench.client.steps import measures
from vlmhyperbench.errors import InvalidInput, NotFound, Unavailable
from vlmhyperbench.files import write_whole
from vlmhyperbench.registry.policies import read_policy
from vlmhyperbench.reports.comparing import Comparison, adjust, rows, sections, tables, to_junit, verdict
from vlmhyperbench.reports.document import write_cell
from vlmhyperbench.reports.samples import NAME, Samples, read_samples
from vlmhyperbench.reports.writers.markdown import sections_to_markdown
from vlmhyperbench.wire.runs import RunDetail
from vlmhyperbench_sdk.suggestions import did_you_mean


def compare(
    baseline: str,
    other: str,
    /,
    *others: str,
    gate: Annotated[Path | None, Parameter(group=GATE)] = None,
    junit: Annotated[Path | None, Parameter(group=GATE)] = None,
    markdown: Annotated[Path | None, Parameter(group=OUTPUT)] = None,
    output: OutputFlags = TEXT,
) -> int:
    """Compare runs with a baseline, answer by answer.

    Give each run by its id. Or give its file samples.parquet, or the folder of its report, which contains this file;
    then no stack is needed.

    Args:
        baseline: The run with which the others are compared.
        other: The run that is compared.
        others: Further runs.
        gate: YAML file of a gate policy. The exit code is 5 if a run does not meet it.
        junit: File to which the checks of the gate are written as JUnit XML.
        markdown: File to which the comparison is written as Markdown, for example for the summary of a build.
        output: How the output is printed.
    """
    if junit is not None and gate is None:
        raise InvalidInput("--junit needs --gate.", cure="Give the policy too: --gate POLICY.yaml.", code="usage")
    policy = None if gate is None else read_policy(gate)
    compared = compare_all(_read([baseline, other, *others]), policy)
    if junit is not None and policy is not None:
        _write(junit, to_junit(compared, is_lenient=policy.inconclusive == "pass"))
    if markdown is not None:
        _write(markdown, sections_to_markdown("Comparison", sections(compared)))
    warnings = [f"{comparison.other.name}: {warning}" for comparison in compared for warning in comparison.warnings]
    warnings = list(dict.fromkeys(warnings))  # runs of one comparison may share them
    if output.json:
        emit("comparison", {"comparisons": [rows(comparison) for comparison in compared]}, warnings=warnings)
    else:
        for comparison in compared:
            print_comparison(comparison)
        for warning in warnings:
            note(f"warning: {warning}", output)
    return gate_code(compared)


def compare_all(samples: Sequence[Samples], policy: GatePolicy | None) -> list[Comparison]:
    """Compare runs with the first one; p-values are adjusted over all of them.

    Raises:
        InvalidInput: a rule of the policy is for a run that is not compared.
        NotFound, Conflict, PluginFailure: a metric cannot be opened here.
    """
    first, *rest = samples
    known = [run.name for run in rest]
    for rule in policy.rules if policy is not None else ():
        for name in rule.runs or ():
            if name not in known:
                message = f"A rule of the policy is for the run {name!r}, which is not compared."
                raise InvalidInput(message, cure=did_you_mean(name, known))
    return adjust([compare_runs(first, other, policy=policy) for other in rest])


def gate_code(compared: Sequence[Comparison]) -> int:
    """Return the exit code: 5 if a run does not meet the policy, otherwise 0."""
    return exits.OK if all(comparison.is_met is not False for comparison in compared) else exits.GATE


def print_comparison(compared: Comparison) -> None:
    """Print the verdict and the tables of a comparison."""
    say(f"{compared.other.name} against {compared.baseline.name}: {verdict(compared)}")
    for sheet in tables(compared):
        table([column.title for column in sheet.columns], [[write_cell(cell) for cell in row] for row in sheet.rows])


def _read(wanted: Sequence[str]) -> list[Samples]:
    """Read the samples of every run: from its file, or from the stack if an id is given."""
    samples: dict[str, Samples] = {}
    ids = []
    for given in wanted:
        path = Path(given) / NAME if is_dir(Path(given)) else Path(given)
        if is_file(path):
            try:
                samples[given] = read_samples(path.read_bytes(), what=str(path))
            except OSError as error:
                raise NotFound(f"{path} cannot be read: {error.strerror}.", cure="Correct its permissions.") from error
        elif os.sep in given or given.endswith(".parquet") or exists(Path(given)):
            raise NotFound(f"There is no file {path}.", cure=f"Give the id of a run, or the file {NAME} of its report.")
        else:
            ids.append(given)
    if ids:
        with Client() as client:
            samples |= {given: _fetch(client, given) for given in ids}
    return [samples[given] for given in wanted]


def _fetch(client: Client, run_id: str) -> Samples:
    run = find(client, run_id)
    if not isinstance(run, RunDetail):
        cure = f"Give two of its runs: `vlmhyperbench show {run_id}` lists them."
        raise InvalidInput(f"{run_id} is an experiment, not a run.", cure=cure)
    return client.do(measures(run))


def _write(path: Path, content: bytes) -> None:
    try:
        write_whole(path, content)
    except OSError as error:
        raise Unavailable(
            f"{path} cannot be written: {error.strerror}.",
            cure="Name a file in a folder that exists and can be written.",
        ) from error
