"""The names of targets that workers keep loaded: a worker knows them by digest, the runs of a project by name."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Mapping
from typing import Final

from pydantic import TypeAdapter

from vlmhyperbench.db import held_models, runs
from vlmhyperbench.db.engine import AsyncSession
from vlmhyperbench.domain.asking import targets_of
from vlmhyperbench.domain.digests import digest_of
from vlmhyperbench.domain.specs import Target
from vlmhyperbench.summaries.headline import name_of

_MAX_NAMES: Final = 10_000
"""Names that a process remembers; the one that was used the longest time ago is forgotten first."""
_TARGET: TypeAdapter[Target] = TypeAdapter(Target)


class TargetNames:
    """Names by project and digest. A digest covers the name, so what was read once holds for ever."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, str], str] = OrderedDict()

    async def of(self, session: AsyncSession, digests: Collection[str], *, project_id: str) -> Mapping[str, str]:
        """Return the names of the targets that runs or requests of the project have; others are left out."""
        unknown = {digest for digest in digests if (project_id, digest) not in self._known}
        if unknown:
            held = await held_models.of_targets(session, unknown, project_id=project_id)
            asking = await runs.newest_of_targets(session, unknown, project_id=project_id)
            targets = [_TARGET.validate_python(model.target) for model in held]
            targets += targets_of([run.pinned_spec() for run in asking])
            for target in targets:
                self._known[project_id, digest_of(target)] = name_of(target)
        named = {digest: self._known[project_id, digest] for digest in digests if (project_id, digest) in self._known}
        for digest in named:
            self._known.move_to_end((project_id, digest))
        while len(self._known) > _MAX_NAMES:
            self._known.popitem(last=False)
        return named
