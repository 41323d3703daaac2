"""The folders of registry files and their precedence."""

from __future__ import annotations

from pathlib import Path

from vlmhyperbench.errors import NotFound

FOLDER = "registries"


def registry_roots(named: Path | None, home: Path) -> tuple[Path, ...]:
    """Return the folders in order of increasing precedence: an entry of a later folder replaces one of an earlier.

    The first is the named folder (`VLMHB_REGISTRIES`), else the one shipped with the product. The last is
    `<home>/registries` with the user's own entries; it need not exist.

    Raises:
        NotFound: the first does not exist or is not a folder.
    """
    locations = [named] if named is not None else builtin_locations()
    first = next((location for location in locations if _is_dir(location)), None)
    if first is None:
        raise NotFound(
            f"There are no registries at {' or '.join(map(str, locations))}.",
            cure="Set VLMHB_REGISTRIES to the folder that holds models/, tasks/, ….",
            code="no_registries",
        )
    own = own_root(home)
    return (first.absolute(), own) if first.resolve() != own.resolve() else (own,)


def own_root(home: Path) -> Path:
    """Return the folder of the user's own entries."""
    return (home / FOLDER).absolute()


def builtin_locations() -> list[Path]:
    """Return possible locations of the shipped entries: in the installed package, or in its source checkout."""
    room = Path(__file__).resolve().parent
    return [room / "builtin", room.parents[2] / FOLDER]


def _is_dir(location: Path) -> bool:
    try:
        return location.is_dir()
    except OSError:  # the name is too long, or the folder may not be read
        return False
