"""`python -m tests.fuzz.guided`: fuzz the reading of answers with Atheris, which keeps what reaches new code.

Usage: python -m tests.fuzz.guided [CORPUS] [-max_total_time=SECONDS]    Other options are libFuzzer's. `make fuzz`
installs Atheris into an environment of its own. What breaks something is left in a file `crash-…`.
"""

from __future__ import annotations

import sys

import atheris  # only where `make fuzz` installed it

with atheris.instrument_imports(
    include=["vlmhyperbench_loadgen.answers", "vlmhyperbench_loadgen.http1", "vlmhyperbench_loadgen.sse"]
):
    from tests.fuzz.streams import PIECES, check


def one_input(data: bytes) -> None:
    """Take a few places, then pieces of streams and bytes between them, out of what the fuzzer made up."""
    given = atheris.FuzzedDataProvider(data)
    places = [given.ConsumeIntInRange(0, 3000) for _ in range(given.ConsumeIntInRange(0, 8))]
    parts: list[bytes] = []
    while given.remaining_bytes():
        if given.ConsumeBool():
            parts.append(PIECES[given.ConsumeIntInRange(0, len(PIECES) - 1)])
        else:
            parts.append(given.ConsumeBytes(given.ConsumeIntInRange(0, 40)))
    check(b"".join(parts), places)


if __name__ == "__main__":
    atheris.Setup(sys.argv, one_input)
    atheris.Fuzz()
