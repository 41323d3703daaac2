"""Print why a model did not fit: a table of need, have and shortfall, and which knob would change it."""

from __future__ import annotations

from vlmhyperbench.cli.output import say, table
from vlmhyperbench.wire.shortages import MemoryShortage


def show_shortage(shortage: MemoryShortage) -> None:
    """Print one model that was not loaded."""
    say(f"memory of {shortage.model}:")
    rows = [(row.memory, gib(row.need_bytes), gib(row.have_bytes), gib(row.shortfall_bytes)) for row in shortage.rows]
    table(["memory", "need", "have", "shortfall"], rows, right=["need", "have", "shortfall"])
    fixes = [f"{knob.name}: {knob.to}" for knob in shortage.knobs if knob.fixes]
    others = [knob.name for knob in shortage.knobs if not knob.fixes]
    if fixes:
        say(f"this would fit it: {', or '.join(fixes)}")
    if others:
        say(f"smaller values need less: {', '.join(others)}")


def gib(size_bytes: int | None) -> str:
    """Return a size in words; `unknown` for None."""
    if size_bytes is None:
        return "unknown"
    return f"{size_bytes / 2**30:,.2f} GiB" if size_bytes >= 2**30 else f"{size_bytes / 2**20:,.1f} MiB"
