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
    """Return rows with empty values: numbers are 0, and stream and numbers of tokens are unknown (-1)."""
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
    """Write `plan.json`, the tables and the schedules; `bodies.bin` must be complete before the ready line is sent.

    Args:
        folder: Folder of the plan; created if it does not exist.
        plan: The phases, the endpoint and the limits.
        requests: Rows of all phases.
        schedules: For each phase that is an open loop, the instants of its requests in order. Shape: (requests,).
        turns: For conversations, rows of `TURN_DTYPE`.
        places: For conversations, rows of `PLACE_DTYPE`.

    Raises:
        InvalidInput: the table does not have the columns of `REQUEST_DTYPE`, or the counts disagree.
        OSError: the disk is full, or the folder cannot be written.
    """
    if requests.dtype != np.dtype(REQUEST_DTYPE):
        message = "The table of requests does not have the columns of REQUEST_DTYPE."
        raise InvalidInput(message, cure="Make the table with numpy.zeros(COUNT, dtype=REQUEST_DTYPE).")
    for phase in plan.phases:
        count = int(np.count_nonzero(requests["phase"] == phase.no))
        if phase.count != count:
            message = f"Phase {phase.no} of the plan announces {phase.count} requests, but the table has {count}."
            raise InvalidInput(message, cure="Correct the count of the phase.")
        instants = (schedules or {}).get(phase.no)
        if ("arrivals" in phase.params) != (instants is not None) or (instants is not None and instants.size != count):
            message = f"Phase {phase.no} of the plan has arrivals without a schedule, or a schedule without arrivals, "
            message += "or not one instant for each request."
            raise InvalidInput(message, cure="Give a schedule to each phase with arrivals, and to no other.")
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
    """Write complete JSON bodies one after the other and return their rows, numbered in this order.

    Raises:
        OSError: the disk is full, or the folder cannot be written.
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
