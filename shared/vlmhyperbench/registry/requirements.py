"""What an entry of a backend or a model may require of the machine that runs it."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import AfterValidator, Field

from vlmhyperbench.domain.base import Refused
from vlmhyperbench.registry.values import Slug, Strict
from vlmhyperbench_sdk.suggestions import did_you_mean
from vlmhyperbench_sdk.testing.certificates import CHECK_NAMES

_MAX_CHECKS: Final = 50


def _known(names: tuple[str, ...]) -> tuple[str, ...]:
    for name in names:
        if name not in CHECK_NAMES:
            raise Refused(f"there is no check {name!r}", cure=did_you_mean(name, CHECK_NAMES))
    return names


Checks = Annotated[tuple[Slug, ...], Field(min_length=1, max_length=_MAX_CHECKS), AfterValidator(_known)]


class Certified(Strict):
    """The requirement of a certificate."""

    requires_certificate: bool | Checks = False
    """Whether a run needs a certificate of exactly this environment on its machine, which `vlmhyperbench envs check`
    writes: no check may have failed; or the checks that must have passed. A model's own requirement, if it has one,
    replaces that of its backend."""


def required_checks(*entries: Certified) -> tuple[str, ...] | None:
    """Return the checks that the first entry with a requirement names, empty for "none may have failed"; None: none."""
    for entry in entries:
        if isinstance(entry.requires_certificate, tuple):
            return entry.requires_certificate
        if entry.requires_certificate:
            return ()
    return None
