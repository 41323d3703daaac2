"""The orders that arrive on stdin: lines of JSON objects, which may arrive in pieces."""

from __future__ import annotations

from typing import Any

import orjson

from vlmhyperbench_loadgen.failures import PlanError

MAX_IN_FLIGHT = 65_536


class OrderReader:
    """Turns the bytes of stdin into orders."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[dict[str, Any]]:
        """Return the orders that are complete.

        Raises:
            PlanError: a line is not a JSON object, or a number of requests in flight is no positive integer.
        """
        *lines, self._rest = (self._rest + data).split(b"\n")
        return [_read(line) for line in lines]


def _read(line: bytes) -> dict[str, Any]:
    try:
        order = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise PlanError("A line on stdin is not JSON.") from error
    if not isinstance(order, dict):
        raise PlanError("A line on stdin is not an object.")
    if order.get("event") == "retune":
        in_flight = order.get("in_flight")
        if type(in_flight) is not int or not 1 <= in_flight <= MAX_IN_FLIGHT:
            raise PlanError(f"The line retune needs in_flight between 1 and {MAX_IN_FLIGHT}.")
    return order
