"""Registry entries that were made through the API, as values: the caller reads them from the database."""

from __future__ import annotations

from dataclasses import dataclass

from vlmhyperbench.registry.errors import RegistryError


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredEntry:
    """The newest version of an entry."""

    kind: str
    name: str
    revision: int
    text: str
    """YAML, of which lines are named in errors."""
    is_archived: bool = False

    @property
    def key(self) -> tuple[str, str]:
        return self.kind, self.name

    @property
    def shown(self) -> str:
        """What errors call it, in the place of a file."""
        return f"database/{self.kind}/{self.name}@{self.revision}"

    @property
    def archived(self) -> RegistryError:
        """Why an archived entry cannot be used."""
        return RegistryError(
            file=self.shown, message="It is archived.", cure="Name another, or send it again with PUT to restore it."
        )
