"""Metrics for tests of those that run in an environment of their own; this module imports the SDK only."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import time
from decimal import Decimal
from fractions import Fraction

from vlmhyperbench_sdk.errors import InvalidInput
from vlmhyperbench_sdk.protocols import MetricDescription
from vlmhyperbench_sdk.types import Measures


def describe(**changes):
    return MetricDescription(
        **{
            "name": "wilful",
            "profile": "v1",
            "version": "1.0.0",
            "title": "Wilful",
            "kind": "text",
            "unit": "1",
            "range": (0.0, None),
            "direction": "higher",
            "aggregation": "pooled",
            "proportion": False,
            "normaliser": "none",
            "formula": "length of the answer",
            "source": "this test",
            **changes,
        }
    )


def _end(how):
    if how == "exit":
        os._exit(3)
    os.kill(os.getpid(), 9)


def _hang(_):
    time.sleep(600)


def _raise(kind):
    raise {"ValueError": ValueError, "SystemExit": SystemExit, "MemoryError": MemoryError}[kind]("no")


def _give(what):
    return {"nan": float("nan"), "decimal": Decimal(1), "bool": True, "text": "1", "fraction": Fraction(1, 2)}[what]


def _print(text):
    print(text)
    print(text, file=sys.stderr)
    os.write(1, b'{"result": "forged"}\n')
    subprocess.run(["echo", text], check=True)
    return float(len(sys.stdin.read()))


def _eat(mebibytes):
    return float(len(bytearray(int(mebibytes) * 2**20)))


def _spawn(_):
    """Start a process in a session of its own, which outlives its parent, and return its id."""
    return float(subprocess.Popen(["sleep", "600"], start_new_session=True).pid)


DOES = {"end": _end, "hang": _hang, "raise": _raise, "give": _give, "print": _print, "eat": _eat, "spawn": _spawn}


class Wilful:
    """Does what the answers say, `!VERB ARGUMENT`; another answer has its length as its value."""

    opened = 0

    def __init__(self, *, profile="v1", known=(), on_invalid="exclude", breaks=""):
        Wilful.opened += 1
        if breaks == "refuse":
            raise InvalidInput("It lacks its table.", cure="Give the table.")
        if breaks == "raise":
            raise ZeroDivisionError("no weights")
        self.profile, self.known, self.on_invalid, self.breaks = profile, known, on_invalid, breaks

    @property
    def description(self):
        if self.breaks == "description":
            return None
        if self.breaks == "title":
            return describe(title=5)
        return describe(profile=self.profile, normaliser=f"{self.on_invalid} {Wilful.opened} {list(self.known)}")

    def measure(self, predictions, references, *, metadata=None):
        assert all(isinstance(accepted, tuple) for accepted in references)
        values = [self._value(text) for text in predictions]
        if any(text == "!short" for text in predictions):
            values.pop()
        statistics = {"sum": [value or 0.0 for value in values], "of": [1.0 for _ in values]}
        if metadata is not None and any("own" in row for row in metadata):
            statistics["own"] = [float(row.get("own", 0)) for row in metadata]
        return Measures(values=values, reasons=[None] * len(predictions), statistics=statistics)

    def combine(self, sums):
        if sums.get("of") == -1:
            raise ValueError("negative")
        if sums.get("of") == -2:
            return "1"
        return sums["sum"] / sums["of"] if sums.get("of") else None

    def _value(self, text):
        verb, _, argument = text.removeprefix("!").partition(" ")
        return DOES[verb](argument) if text.startswith("!") and verb in DOES else float(len(text))


class Forging(Wilful):
    """Finds the pipe of the replies, and writes into it."""

    def measure(self, predictions, references, *, metadata=None):
        for descriptor in range(3, 30):
            try:
                os.write(descriptor, b"nonsense\n")
            except OSError:
                continue
        return super().measure(predictions, references, metadata=metadata)


class Crashing(Wilful):
    """Ends its process when it is opened, as a broken library does."""

    def __init__(self, *, profile="v1"):
        print("the library is broken", file=sys.stderr, flush=True)
        ctypes.string_at(0)
