"""`python -m vlmhyperbench_loadgen PLAN RECORD`: drive a plan, write its record, report in JSON lines on stdout."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

import orjson

from vlmhyperbench_loadgen.parent import Parent


def main() -> int:
    """Drive the plan; return 0 if it was driven or cancelled, 1 if that failed; wrong arguments exit with 2."""
    parser = argparse.ArgumentParser(prog="python -m vlmhyperbench_loadgen", description=__doc__)
    parser.add_argument("plan", type=Path, help="folder with plan.json, requests.npy and bodies.bin")
    parser.add_argument("record", type=Path, help="folder for the segments; created if it does not exist")
    args = parser.parse_args()
    try:
        return Parent(args.plan, args.record, _emit).run()
    except BrokenPipeError:
        # The reader of stdout has ended. Sealed segments stay, and stdout must not be flushed again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _emit(line: object) -> None:
    sys.stdout.buffer.write(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE))
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    sys.exit(main())
