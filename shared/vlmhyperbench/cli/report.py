"""`report`: print the results and download the report, or write a report.json in another format."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from vlmhyperbench.cli import exits
from vlmhyperbench.cli.following import find
from vlmhyperbench.cli.groups import OUTPUT
from vlmhyperbench.cli.headline import print_table
from vlmhyperbench.cli.output import emit, say
from vlmhyperbench.cli.output_flags import TEXT, OutputFlags
from vlmhyperbench.cli.paths import is_file
from vlmhyperbench.client import Client
from vlmhyperbench.client.steps import main_file, save_files, store
from vlmhyperbench.domain.short_ids import short
from vlmhyperbench.errors import NotFound, NotReady, Unavailable
from vlmhyperbench.local.supervisor.home import Home
from vlmhyperbench.wire.runs import ExperimentDetail, RunDetail


def report(
    subject: str,
    /,
    *,
    out: Annotated[Path | None, Parameter(group=OUTPUT)] = None,
    format_: Annotated[Literal["html", "markdown"] | None, Parameter(name="--format", group=OUTPUT)] = None,
    output: OutputFlags = TEXT,
) -> int:
    """Print the results of a run or an experiment, and download its report.

    Given a file report.json, write its report again as HTML or Markdown; then no stack is needed.

    Args:
        subject: Id of a run or an experiment, or its first digits. Or a file report.json; images of pages in its folder
            are included again.
        out: Folder for the files; by default `./report-ID`.
        format_: For a file report.json: format of the report, html by default.
        output: How the output is printed.
    """
    file = Path(subject)
    if is_file(file):
        main = rewrite(file, out, format_ or "html")
        if output.json:
            emit("report", {"folder": str(main.parent), "open": str(main)})
        else:
            say(f"report: {main}")
        return exits.OK
    if format_ is not None or file.suffix == ".json":
        raise NotFound(f"There is no file {subject}.", cure="Name a file report.json, or give an id without --format.")
    with Client() as client:
        newest = client.report(find(client, subject).id)
        folder = out or Path(f"report-{short(newest.id)}")
        main = client.do(save_files(newest, folder))
    if output.json:
        emit("report", {"report": newest.model_dump(mode="json"), "folder": str(folder), "open": str(main)})
    else:
        print_table(newest.headline)
        say(f"report: {main}")
    return exits.OK


def rewrite(file: Path, out: Path | None, format_: Literal["html", "markdown"]) -> Path:
    """Write the report of a report.json into a folder, and return the file to open.

    Raises:
        InvalidInput: the file is not a report.
        Unavailable: the file cannot be read, or the folder cannot be written.
    """
    from vlmhyperbench.reports.writers.formats import Pages, write_report
    from vlmhyperbench.reports.writers.json import from_json
    from vlmhyperbench.reports.writers.markdown import image_name
    from vlmhyperbench.reports.writers.plots import to_svg
    from vlmhyperbench.reports.writers.thumbnails import read_thumbnail

    try:
        document = from_json(file.read_bytes())
        images = {image: file.with_name(image_name(image)) for image in document.images}
        pictures = {image: read_thumbnail(path.read_bytes()) for image, path in images.items() if is_file(path)}
    except OSError as error:
        message = f"{file} cannot be read: {error.strerror or error}."
        raise Unavailable(message, cure="Correct its permissions.") from error
    pages = Pages(
        document=document,
        drawings={figure.name: to_svg(figure) for figure in document.figures},
        thumbnails={image: picture for image, picture in pictures.items() if picture is not None},
    )
    folder = out or Path(f"report-{short(document.id)}")
    files = write_report(pages, {format_})
    store(folder, {file.name: file.content for file in files})
    return folder / files[0].name


def locate_report(client: Client, subject: RunDetail | ExperimentDetail) -> tuple[Path | None, str | None]:
    """Return the path of a report, if the storage is on this machine, and its URL; None for each without a report."""
    try:
        main = main_file(client.report(subject.id))
    except (NotFound, NotReady):
        return None, None
    if main is None:
        return None, None
    path = Home.default().storage / main.storage_key
    address = f"{client.connection.url}/api/v1/artifacts/{main.id}/content"
    return path if is_file(path) else None, address
