"""`report`: the comparison table, and the files of a report; or a report.json written anew in another format."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from vlmhyperbench.cli import exits
from vlmhyperbench.cli.following import find
from vlmhyperbench.cli.groups import OUTPUT
from vlmhyperbench.cli.headline import print_table
from vlmhyperbench.cli.output import emit, say
from vlmhyperbench.cli.paths import is_file
from vlmhyperbench.cli.shown import HUMAN, Shown
from vlmhyperbench.client import Client
from vlmhyperbench.client.steps import main_file, save_files, store
from vlmhyperbench.domain.short_ids import short
from vlmhyperbench.errors import InvalidInput, NotFound, NotReady, Unavailable
from vlmhyperbench.local.supervisor.home import Home
from vlmhyperbench.wire.runs import ExperimentDetail, RunDetail


def report(
    subject: str,
    /,
    *,
    out: Annotated[Path | None, Parameter(group=OUTPUT)] = None,
    format: Annotated[Literal["html", "markdown"] | None, Parameter(group=OUTPUT)] = None,  # noqa: A002 -- the flag's name
    shown: Shown = HUMAN,
) -> int:
    """Print the results of a run or an experiment and fetch its report, or write the report of a report.json again.

    Args:
        subject: Id of a run or an experiment; or a file report.json, which needs no stack. Pictures of pages that lie
            beside the file are shown again.
        out: Folder for the files; `./report-<id>` where none is named.
        format: What to write from a file: html (the default) or markdown.
        shown: How the answer is shown.
    """
    file = Path(subject)
    if is_file(file):
        main = rewrite(file, out, format or "html")
        if shown.json:
            emit("report", {"folder": str(main.parent), "open": str(main)})
        else:
            say(f"report: {main}")
        return exits.OK
    if format is not None or file.suffix == ".json":
        raise InvalidInput(f"There is no file {subject}.", cure="Name a report.json, or an id without --format.")
    with Client() as client:
        found = client.report(find(client, subject).id)
        folder = out or Path(f"report-{short(found.id)}")
        main = client.do(save_files(found, folder))
    if shown.json:
        emit("report", {"report": found.model_dump(mode="json"), "folder": str(folder), "open": str(main)})
    else:
        print_table(found.headline)
        say(f"report: {main}")
    return exits.OK


def rewrite(file: Path, out: Path | None, format: Literal["html", "markdown"]) -> Path:  # noqa: A002
    """Write the report that a report.json holds into a folder, and return the file to open.

    Raises:
        InvalidInput: the file is no report.
        Unavailable: the file cannot be read, or the folder not written.
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
        raise Unavailable(f"{file} cannot be read: {error.strerror or error}.") from error
    pages = Pages(
        document=document,
        drawings={figure.name: to_svg(figure) for figure in document.figures},
        thumbnails={image: picture for image, picture in pictures.items() if picture is not None},
    )
    folder = out or Path(f"report-{short(document.id)}")
    files = write_report(pages, {format})
    store(folder, {file.name: file.content for file in files})
    return folder / files[0].name


def locate(client: Client, subject: RunDetail | ExperimentDetail) -> tuple[Path | None, str | None]:
    """Say where the report of what has ended is: its path, where the storage is on this machine, and its address."""
    try:
        main = main_file(client.report(subject.id))
    except (NotFound, NotReady):
        return None, None
    if main is None:
        return None, None
    path = Home.default().storage / main.storage_key
    address = f"{client.connection.url}/api/v1/artifacts/{main.id}/content"
    return path if is_file(path) else None, address
