"""Pinned environments of engines: what is installed where an engine runs, apart from the platform's own packages."""

from __future__ import annotations

import re
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field

from vlmhyperbench.domain.base import Refused, Spec

_NAME: Final = r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?(?:\[[A-Za-z0-9._, -]+\])?"
_VERSION: Final = r" ?== ?[A-Za-z0-9][A-Za-z0-9.!+_-]*"
_MARKER: Final = r"(?: ?; ?[^\n\r;]+)?"
_REQUIREMENT: Final = re.compile(_NAME + _VERSION + _MARKER)
_OVERRIDE: Final = re.compile(_NAME + f"(?:{_VERSION})?" + _MARKER)


def _version(text: str) -> str:
    if re.fullmatch(r"3\.\d{1,2}(\.\d{1,3})?", text, re.ASCII) is None:
        raise Refused("it is no version of Python", cure="Write a version in quotes, such as '3.12'.")
    return text


def _pinned(line: str) -> str:
    if _REQUIREMENT.fullmatch(line) is None:
        cure = (
            "Write NAME==VERSION, with extras and a marker where needed: vllm[audio]==0.32.0 ; python_version < '3.13'."
        )
        raise Refused("it is no requirement of one exact version", cure=cure)
    return line


def _overriding(line: str) -> str:
    if _OVERRIDE.fullmatch(line) is None:
        cure = "Write NAME==VERSION, or NAME ; MARKER, such as \"torchvision ; sys_platform == 'never'\"."
        raise Refused("it is no override", cure=cure)
    return line


Requirement = Annotated[str, Field(max_length=500), AfterValidator(_pinned)]
"""`NAME[EXTRAS]==VERSION ; MARKER`; options of an installer, URLs and ranges are refused."""
Override = Annotated[str, Field(max_length=500), AfterValidator(_overriding)]
"""A requirement that replaces what other packages say of this one; without a version only its marker counts."""


class VirtualenvFields(Spec):
    """A virtual environment. It keeps packages apart, and isolates nothing: the engine runs as the worker's user."""

    python: Annotated[str, AfterValidator(_version)] | None = None
    """Version of Python that the worker's machine must have, such as `3.12`; None is that of the platform."""
    requirements: Annotated[tuple[Requirement, ...], Field(min_length=1, max_length=500)]
    overrides: Annotated[tuple[Override, ...], Field(max_length=500)] = ()
    """What replaces the requirements of packages of packages, for example to leave one out on every platform."""
    manager: Literal["uv", "pip"] = "uv"
    """What installs the resolved packages; uv resolves them in either case."""


class VirtualenvSpec(VirtualenvFields):
    """A pinned virtual environment."""

    kind: Literal["virtualenv"] = "virtualenv"


EnvironmentSpec = VirtualenvSpec
"""Kinds of environments are told apart by `kind`."""
