"""Policies of gates as users write them: the YAML of a file or of a request, with every error at its line."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from vlmhyperbench.analysis.gate_policy import GatePolicy
from vlmhyperbench.registry.documents import Document, parse_document, read_document
from vlmhyperbench.registry.errors import RegistryError, RegistryErrors
from vlmhyperbench.registry.validation import validate


def read_policy(path: Path) -> GatePolicy:
    """Read a policy from a YAML file.

    Raises:
        RegistryErrors: the file is not valid; lists every error with its line.
    """
    return _policy_of(*read_document(path, str(path)))


def parse_policy(text: str, shown: str) -> GatePolicy:
    """Parse the YAML of a policy; errors call it `shown`.

    Raises:
        RegistryErrors: it is not valid; lists every error with its line.
    """
    return _policy_of(*parse_document(text, shown))


def _policy_of(document: Document | None, errors: Sequence[RegistryError]) -> GatePolicy:
    if document is None:
        raise RegistryErrors(list(errors))
    policy, problems = validate(GatePolicy, document.value)
    if policy is None:
        raise RegistryErrors.of(problems, document.location_of)
    return policy
