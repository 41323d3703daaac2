"""Bring the files that an engine reads to its rented machine, and compare their hashes there.

That is done before the engine is loaded, with a limit of its own: a load begins with the files where the engine reads
them, wherever it runs. What the machine can download itself is not sent from here. The launcher sends what is missing
then, the adapter's code, which only a gateway knows.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Final, TypeAlias

from vlmhyperbench.environments.programs import Step, last_lines, run_step
from vlmhyperbench.environments.rented_downloads import download_there
from vlmhyperbench.environments.rented_records import RentedRecord
from vlmhyperbench.environments.skypilot import log_of
from vlmhyperbench.environments.ssh import SSH_VARIABLES
from vlmhyperbench.errors import Unavailable
from vlmhyperbench.folders import file_sha256

MAX_SEND_S: Final = 6 * 3600.0
"""How long sending may take, while the machine is paid for."""
_BATCH_BYTES: Final = 256 * 2**20
"""Files are sent together up to this size, so that a model of many small files takes few connections."""

Sent: TypeAlias = Callable[[int, int], Awaitable[None]]
"""Receives how many bytes have arrived, and of how many."""


async def tell_no_bytes(done: int, total: int) -> None:
    """Receive the bytes that have arrived and do nothing."""


async def send_files(
    record_file: Path,
    paths: Collection[str] = (),
    *,
    known: Mapping[str, str] = MappingProxyType({}),
    urls: Mapping[str, str] = MappingProxyType({}),
    sent: Sent = tell_no_bytes,
) -> None:
    """Bring files and folders unless they are there, each to its full path below the machine's folder of files.

    Args:
        record_file: The record of the machine, which notes what has arrived.
        paths: Files and folders of this machine, besides the known ones.
        known: File → SHA-256, for those that were verified here already.
        urls: File, one of the known → URL from which the machine may download it itself.
        sent: Is told of the bytes that have arrived.

    Raises:
        Unavailable: the transfer fails, takes too long, or a file has not arrived whole; code `transfer_failed`.
    """
    record = RentedRecord.read(record_file)
    missing = [path for path in {**known, **dict.fromkeys(paths)} if path not in record.sent]
    if not missing:
        return
    try:
        async with asyncio.timeout(MAX_SEND_S):
            await _send(record, list(_files_of(missing)), known, urls, sent)
    except TimeoutError as error:
        message = f"The files of the model did not arrive within {MAX_SEND_S:g} s at the machine {record.name}."
        raise Unavailable(message, cure="Choose a region that is nearer.", code="transfer_failed") from error
    replace(record, sent=(*record.sent, *missing)).write()


async def _send(
    record: RentedRecord, files: Sequence[Path], known: Mapping[str, str], urls: Mapping[str, str], sent: Sent
) -> None:
    total = sum(file.stat().st_size for file in files)
    await sent(0, total)
    offered = {file: urls[str(file)] for file in files if str(file) in urls}
    fetched = await download_there(record, offered, known, lambda done: sent(done, total))
    done = sum(file.stat().st_size for file in fetched)
    files = [file for file in files if file not in fetched]
    if not files:
        return
    for batch in _batches(files):
        await _run(record, record.rented.rsync(record.hosts, list(map(str, batch)), record.rented.root))
        done += sum(file.stat().st_size for file in batch)
        await sent(done, total)
    sums = record.file.with_suffix(".sums")
    sums.write_text(await asyncio.to_thread(_sums, record, files, known), encoding="utf-8")
    try:
        await _run(record, record.rented.rsync(record.hosts, [str(sums)], record.rented.root))
        compare = ["sha256sum", "--check", "--quiet", "--strict", record.rented.sent(str(sums))]
        await _run(record, record.rented.ssh(record.hosts, compare))
    finally:
        sums.unlink()


async def _run(record: RentedRecord, argv: Sequence[str]) -> None:
    step = Step(
        argv=argv,
        log=log_of(record.name, record.logs),
        cwd=record.file.parent,
        what=f"The files of the model did not arrive whole at the machine {record.name}",
        code="transfer_failed",
        cure="Try again, or enlarge disk_gib in the entry.",
        timeout_s=MAX_SEND_S,
    )
    await run_step(step, inherited=SSH_VARIABLES, explain=_not_arrived)


def _not_arrived(step: Step, _status: int, output: Sequence[str]) -> Unavailable:
    return Unavailable(f"{step.what}:\n{last_lines(output)}\n", cure=step.cure, code=step.code)


def _files_of(paths: Collection[str]) -> Iterator[Path]:
    for path in map(Path, paths):
        files = sorted(path.rglob("*")) if path.is_dir() else [path]
        yield from (file for file in files if file.is_file() and "__pycache__" not in file.parts)


def _batches(files: Sequence[Path]) -> Iterator[list[Path]]:
    batch: list[Path] = []
    for file in files:
        batch.append(file)
        if sum(each.stat().st_size for each in batch) >= _BATCH_BYTES:
            yield batch
            batch = []
    if batch:
        yield batch


def _sums(record: RentedRecord, files: Sequence[Path], known: Mapping[str, str]) -> str:
    """Return the lines with which `sha256sum` compares the files there."""
    hashes = ((file, known.get(str(file)) or file_sha256(file)) for file in files)
    return "".join(f"{digest}  {record.rented.sent(str(file))}\n" for file, digest in hashes)
