"""Which folders of registry files are read, and which of two entries with one name is meant."""

from __future__ import annotations

from pathlib import Path

from vlmhyperbench.errors import NotFound

FOLDER = "registries"


def registry_roots(named: Path | None, home: Path) -> tuple[Path, ...]:
    """Return the folders in the order of rising precedence: an entry of a later one stands in place of an earlier one.

    The first is the named folder (`VLMHB_REGISTRIES`), else the one that came with the product. The last is
    `<home>/registries`, where one's own entries are; it need not exist.

    Raises:
        NotFound: the first is no folder.
    """
    locations = [named] if named is not None else builtin_locations()
    found = next((location for location in locations if _is_dir(location)), None)
    if found is None:
        raise NotFound(
            f"There are no registries at {' or '.join(map(str, locations))}.",
            cure="Set VLMHB_REGISTRIES to the folder that holds models/, tasks/, ….",
            code="no_registries",
        )
    own = own_root(home)
    return (found.absolute(), own) if found.resolve() != own.resolve() else (own,)


def own_root(home: Path) -> Path:
    """Return the folder of one's own entries."""
    return (home / FOLDER).absolute()


def builtin_locations() -> list[Path]:
    """Return where the product's own entries may be: inside the installed package, or beside its checkout."""
    room = Path(__file__).resolve().parent
    return [room / "builtin", room.parents[2] / FOLDER]


def _is_dir(location: Path) -> bool:
    try:
        return location.is_dir()
    except OSError:  # a name that is too long, or a folder that may not be read
        return False
