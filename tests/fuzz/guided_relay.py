"""`python -m tests.fuzz.guided_relay LIBRARY`: fuzz the compiled receiver with Atheris, led by what C is reached.

Usage: python -m tests.fuzz.guided_relay LIBRARY [CORPUS] [-max_total_time=SECONDS]    `relay.sh` compiles LIBRARY,
beside which requests are written; `make fuzz` runs both.
"""

from __future__ import annotations

import os
import sys
from itertools import pairwise
from pathlib import Path

import atheris  # only where `make fuzz` installed it

from tests.loadgen.relays import check, streamed
from vlmhyperbench_loadgen.compiling import LIBRARY

WORDS = (b"same", b"other", b's\\"me', b"")
PIECES = (b"\r\n", b"0\r\n\r\n", b"\r", b"0", b"f", b"1;a=b\r\n", b'"', b"chatcmpl-0123456789", b"data: [DONE]\n\n")


def one_answer(given: atheris.FuzzedDataProvider) -> list[bytes]:
    """Give an answer an id, spoil it in places, and cut it."""
    text = WORDS[given.ConsumeIntInRange(0, len(WORDS) - 1)].decode()
    identity = given.ConsumeBytes(10).ljust(10, b"0") if given.ConsumeBool() else b"0123456789"
    data = bytearray(streamed(text).replace(b"0123456789", identity))
    for _ in range(given.ConsumeIntInRange(0, 3)):
        start = given.ConsumeIntInRange(0, len(data))
        piece = given.ConsumeIntInRange(0, len(PIECES))
        put = PIECES[piece] if piece < len(PIECES) else given.ConsumeBytes(given.ConsumeIntInRange(1, 8))
        data[start : start + given.ConsumeIntInRange(0, 8)] = put
    places = sorted({given.ConsumeIntInRange(1, max(1, len(data))) for _ in range(given.ConsumeIntInRange(0, 4))})
    return [bytes(data[start:end]) for start, end in pairwise([0, *places, len(data)])]


def main() -> None:
    """Search until told to end; what breaks something is left in a file `crash-…`."""
    library = Path(sys.argv.pop(1))
    os.environ[LIBRARY] = str(library)

    def one_input(data: bytes) -> None:
        given = atheris.FuzzedDataProvider(data)
        check(library.parent, [one_answer(given) for _ in range(given.ConsumeIntInRange(1, 6))])

    atheris.Setup(sys.argv, one_input)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
