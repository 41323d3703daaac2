"""`python -m tests.fuzz.guided`: fuzz the parsing of answers with Atheris, guided by coverage.

Usage: python -m tests.fuzz.guided [CORPUS] [-max_total_time=SECONDS]    Other options are libFuzzer's. `make fuzz`
installs Atheris into an environment of its own. An input that fails is written to a file `crash-…`.
"""

from __future__ import annotations

import sys

import atheris  # installed by `make fuzz`

with atheris.instrument_imports(
    include=["vlmhyperbench_loadgen.answers", "vlmhyperbench_loadgen.http1", "vlmhyperbench_loadgen.sse"]
):
    from tests.fuzz.streams import PIECES, check


def one_input(data: bytes) -> None:
    """Make a few offsets, then a stream of known pieces and other bytes, from the fuzzer's data."""
    given = atheris.FuzzedDataProvider(data)
    offsets = [given.ConsumeIntInRange(0, 3000) for _ in range(given.ConsumeIntInRange(0, 8))]
    parts: list[bytes] = []
    while given.remaining_bytes():
        if given.ConsumeBool():
            parts.append(PIECES[given.ConsumeIntInRange(0, len(PIECES) - 1)])
        else:
            parts.append(given.ConsumeBytes(given.ConsumeIntInRange(0, 40)))
    check(b"".join(parts), offsets)


if __name__ == "__main__":
    atheris.Setup(sys.argv, one_input)
    atheris.Fuzz()
