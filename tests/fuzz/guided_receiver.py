"""`python -m tests.fuzz.guided_receiver LIBRARY`: fuzz the compiled receiver with Atheris, guided by coverage.

Usage: python -m tests.fuzz.guided_receiver LIBRARY [CORPUS] [-max_total_time=SECONDS]    `receiver.sh` compiles the
library, and `make fuzz` runs both. An input that fails is written to a file `crash-…`.
"""

from __future__ import annotations

import os
import sys

import atheris  # installed by `make fuzz`

from tests.loadgen.receivers import EMPTY_LINE, PAIRS, Action, check
from vlmhyperbench_loadgen.compiling import LIBRARY

PIECES = (EMPTY_LINE, b"\r\n", b"\r", b"0\r\n\r\n", b"data: [DONE]\n\n")


def one_action(given: atheris.FuzzedDataProvider) -> Action:
    """Make an action from the fuzzer's data."""
    kind = ("start", "send", "send", "stop", "release")[given.ConsumeIntInRange(0, 4)]
    piece = given.ConsumeIntInRange(0, len(PIECES))
    data = PIECES[piece] if piece < len(PIECES) else given.ConsumeBytes(given.ConsumeIntInRange(0, 40))
    return Action(kind, given.ConsumeIntInRange(0, PAIRS - 1), data, given.ConsumeIntInRange(0, 200))


def one_input(data: bytes) -> None:
    """Run the actions that the fuzzer's data describes."""
    given = atheris.FuzzedDataProvider(data)
    check([one_action(given) for _ in range(given.ConsumeIntInRange(1, 40))])


if __name__ == "__main__":
    os.environ[LIBRARY] = sys.argv.pop(1)
    atheris.Setup(sys.argv, one_input)
    atheris.Fuzz()
