"""How an error ends a handler."""

from __future__ import annotations

import pytest

from vlmhyperbench.domain.outcomes import STORAGE_FULL, Failed, Preempted, outcome_of
from vlmhyperbench.errors import (
    Conflict,
    InvalidInput,
    NotFound,
    NotReady,
    OutOfMemory,
    PluginFailure,
    Unavailable,
    VlmHyperBenchError,
)


@pytest.mark.parametrize("kind", [InvalidInput, NotFound, Conflict, PluginFailure])
def test_what_cannot_be_helped_fails_for_good(kind: type[VlmHyperBenchError]) -> None:
    expected = Failed(code=kind.code, message="No. Do otherwise.", permanent=True)
    assert outcome_of(kind("No.", cure="Do otherwise.")) == expected


@pytest.mark.parametrize("kind", [NotReady, Unavailable, OutOfMemory])
def test_what_may_be_helped_is_tried_again(kind: type[VlmHyperBenchError]) -> None:
    assert outcome_of(kind("Away.")) == Failed(code=kind.code, message="Away.")


def test_a_full_disk_gives_the_job_back() -> None:
    assert outcome_of(Unavailable("Full.", code=STORAGE_FULL)) == Preempted(reason=STORAGE_FULL)
