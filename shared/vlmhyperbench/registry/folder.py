"""Which folder of registry files is read where nobody names one."""

from __future__ import annotations

from pathlib import Path

from vlmhyperbench.errors import NotFound


def find_folder(named: Path | None, home: Path) -> Path:
    """Return the named folder, else the stack's own, else the one that came with the product.

    Raises:
        NotFound: there is none.
    """
    room = Path(__file__).resolve().parent
    places = [home / "registries", room / "builtin", room.parents[2] / "registries"] if named is None else [named]
    for place in places:
        if place.is_dir():
            return place
    raise NotFound(
        f"There are no registries at {' or '.join(map(str, places))}.",
        cure="Set VLMHB_REGISTRIES to the folder that holds models/, tasks/, ….",
        code="no_registries",
    )
