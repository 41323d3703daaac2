"""Write the folder that the load generator reads: `plan.json`, `requests.npy`, `bodies.bin`, schedules."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from vlmhyperbench_sdk.errors import InvalidInput
from vlmhyperbench_sdk.load import PLACE_DTYPE, REQUEST_DTYPE, TURN_DTYPE, LoadPlan

RequestTable: TypeAlias = npt.NDArray[np.void]
"""Rows of `REQUEST_DTYPE`. Shape: (requests,)."""

BODIES = "bodies.bin"


def blank_requests(count: int) -> RequestTable:
    """Make rows that say nothing yet: number 0 of everything, of no stream, with no known tokens."""
    table = np.zeros(count, dtype=REQUEST_DTYPE)
    table["stream"] = table["prompt_tokens"] = table["output_tokens"] = -1
    return table


def write_plan(
    folder: Path,
    *,
    plan: LoadPlan,
    requests: RequestTable,
    schedules: Mapping[int, npt.NDArray[np.int64]] | None = None,
    turns: Sequence[tuple[int, int, int]] = (),
    places: Sequence[tuple[int, int, int, int]] = (),
) -> None:
    """Write `plan.json`, the tables and schedules; `bodies.bin` is there or is written before the ready line.

    Args:
        folder: Made if it is not there.
        plan: What is driven.
        requests: Rows of all phases.
        schedules: Phase → instants of its requests, in their order; for each open loop. Shape of each: (requests,).
        turns: Of conversations: rows of `TURN_DTYPE`.
        places: Of conversations: rows of `PLACE_DTYPE`.

    Raises:
        InvalidInput: the table's columns are not those of `REQUEST_DTYPE`, or the counts disagree.
        OSError: the disk is full or the folder cannot be written.
    """
    if requests.dtype != np.dtype(REQUEST_DTYPE):
        raise InvalidInput("The table of requests does not have the columns of REQUEST_DTYPE.")
    for phase in plan.phases:
        found = int(np.count_nonzero(requests["phase"] == phase.no))
        if phase.count != found:
            raise InvalidInput(f"Phase {phase.no} announces {phase.count} requests and has {found}.")
        instants = (schedules or {}).get(phase.no)
        if ("arrivals" in phase.params) != (instants is not None) or (instants is not None and instants.size != found):
            raise InvalidInput(f"Phase {phase.no} needs an instant for each request if it has arrivals, else none.")
    folder.mkdir(parents=True, exist_ok=True)
    np.save(folder / "requests.npy", requests, allow_pickle=False)
    for no, instants in (schedules or {}).items():
        np.save(folder / f"schedule-{no}.npy", np.asarray(instants, dtype="<i8"), allow_pickle=False)
    for name, rows, columns in (("turns", turns, TURN_DTYPE), ("places", places, PLACE_DTYPE)):
        if rows:
            np.save(folder / f"{name}.npy", np.array(rows, dtype=columns), allow_pickle=False)
    counted = dataclasses.replace(plan, counts={**plan.counts, "requests": len(requests)})
    (folder / "plan.json").write_text(json.dumps(dataclasses.asdict(counted)))


def write_bodies(folder: Path, bodies: Iterable[bytes], *, phase: int = 0) -> RequestTable:
    """Write complete JSON bodies one after the other; the ordinals and samples of their rows are their positions.

    Raises:
        OSError: the disk is full or the folder cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    lengths: list[int] = []
    digests: list[bytes] = []
    with (folder / BODIES).open("wb") as file:
        for body in bodies:
            lengths.append(file.write(body))
            digests.append(hashlib.sha256(body).hexdigest().encode())
    table = blank_requests(len(lengths))
    table["phase"] = phase
    table["ordinal"] = table["sample"] = np.arange(len(lengths))
    table["body_bytes"] = lengths
    table["body_offset"] = np.cumsum(lengths) - lengths
    table["request_sha256"] = digests
    return table
