"""`data`: show the first samples of a dataset as its columns are mapped, and check it before anything is asked."""

from __future__ import annotations

from dataclasses import asdict
from itertools import islice
from typing import Annotated, Final

from cyclopts import App, Parameter

from vlmhyperbench.cli import exits
from vlmhyperbench.cli.groups import SELECTION
from vlmhyperbench.cli.local_datasets import local_dataset
from vlmhyperbench.cli.output import emit, say
from vlmhyperbench.cli.output_flags import TEXT, OutputFlags
from vlmhyperbench.cli.registry import open_catalogue
from vlmhyperbench.data.addresses import ImageAddresses
from vlmhyperbench.data.checking import Finding, check_dataset
from vlmhyperbench.data.previewing import PreviewedSample, preview_dataset
from vlmhyperbench.domain.specs import Limits
from vlmhyperbench.settings import Settings

app = App(name="data", help="Show and check registered datasets, before anything is asked.")

_MAX_CHARS: Final = 200


@app.command
def preview(
    entry: str,
    /,
    *,
    samples: Annotated[int, Parameter(group=SELECTION)] = 5,
    split: Annotated[str | None, Parameter(group=SELECTION)] = None,
    output: OutputFlags = TEXT,
) -> int:
    """Show the first samples of a dataset as they would be asked, or what is wrong with it.

    Args:
        entry: Registered dataset.
        samples: How many samples.
        split: Another split than that of the entry.
        output: How the output is printed.
    """
    with local_dataset(open_catalogue(), entry, split, output=output) as spec:
        shown = list(islice(preview_dataset(spec, Limits(), ImageAddresses.of(Settings.load())), samples))
    if output.json:
        emit("samples", [asdict(sample) for sample in shown])
        return exits.OK
    for sample in shown:
        _say_sample(sample)
    return exits.OK


@app.command
def check(
    entry: str,
    /,
    *,
    split: Annotated[str | None, Parameter(group=SELECTION)] = None,
    against: Annotated[tuple[str, ...], Parameter(group=SELECTION, negative=())] = (),
    output: OutputFlags = TEXT,
) -> int:
    """Read every sample of a dataset, decode its images, and say what would spoil a run. Exit code 5: there is such.

    Broken images, keys that come twice and questions that are also in another split are errors. Blank and doubled
    images, doubled questions and samples without an answer are only listed. Files whose hashes the entry states are
    compared first.

    Args:
        entry: Registered dataset.
        split: Another split than that of the entry.
        against: A split that may share no question about the same images with this one; may be repeated.
        output: How the output is printed.
    """
    with local_dataset(open_catalogue(), entry, split, output=output) as spec:
        checked = check_dataset(spec, Limits(), against=against, addresses=ImageAddresses.of(Settings.load()))
    findings = sorted(checked.findings.values(), key=lambda finding: (not finding.is_error, finding.code))
    is_wrong = any(finding.is_error for finding in findings)
    if output.json:
        rows = [{**asdict(finding), "is_error": finding.is_error} for finding in findings]
        emit("dataset_check", {"samples": checked.samples, "images": checked.images, "findings": rows})
    else:
        say(f"{checked.samples} samples with {checked.images} images")
        for finding in findings:
            _say_finding(finding)
    return exits.GATE if is_wrong else exits.OK


def _say_sample(sample: PreviewedSample) -> None:
    say(f"{sample.key}: {_short(sample.question)}")
    for image in sample.images:
        say(f"  image: {image}")
    for reference in sample.references:
        say(f"  reference: {_short(reference)}")
    for name, value in sample.metadata.items():
        say(f"  {name}: {_short(str(value))}")


def _say_finding(finding: Finding) -> None:
    level = "FAIL" if finding.is_error else "note"
    say(f"{level}  {finding.code}: {finding.count}; {finding.detail}")
    say(f"      {', '.join(finding.keys)}{' …' if finding.count > len(finding.keys) else ''}")


def _short(text: str) -> str:
    return text if len(text) <= _MAX_CHARS else f"{text[:_MAX_CHARS]} … ({len(text)} characters)"
