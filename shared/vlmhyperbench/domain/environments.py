"""Pinned environments of engines: what is installed where an engine runs, apart from the platform's own packages."""

from __future__ import annotations

import re
from typing import Annotated, Final, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from vlmhyperbench.domain.base import Refused, Spec

_NAME: Final = r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?(?:\[[A-Za-z0-9._, -]+\])?"
_VERSION: Final = r" ?== ?[A-Za-z0-9][A-Za-z0-9.!+_-]*"
_MARKER: Final = r"(?: ?; ?[^\n\r;]+)?"
_REQUIREMENT: Final = re.compile(_NAME + _VERSION + _MARKER)
_OVERRIDE: Final = re.compile(_NAME + f"(?:{_VERSION})?" + _MARKER)
_CONDA: Final = re.compile(r"[a-z0-9_][a-z0-9._-]*==[A-Za-z0-9][A-Za-z0-9.!+_]*(?:=[A-Za-z0-9][A-Za-z0-9._]*)?")
_CHANNEL: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)*")


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


def _pinned_conda(line: str) -> str:
    if _CONDA.fullmatch(line) is None:
        cure = "Write NAME==VERSION, or NAME==VERSION=BUILD, such as ffmpeg==7.1.0."
        raise Refused("it is no conda package of one exact version", cure=cure)
    return line


def _channel(name: str) -> str:
    if _CHANNEL.fullmatch(name) is None:
        cure = "Write its name, such as conda-forge. CONDA_CHANNEL_ALIAS of the worker says which server has it."
        raise Refused("it is no name of a channel", cure=cure)
    return name


Requirement = Annotated[str, Field(max_length=500), AfterValidator(_pinned)]
"""`NAME[EXTRAS]==VERSION ; MARKER`; options of an installer, URLs and ranges are refused."""
Override = Annotated[str, Field(max_length=500), AfterValidator(_overriding)]
"""A requirement that replaces what other packages say of this one; without a version only its marker counts."""
CondaPackage = Annotated[str, Field(max_length=200), AfterValidator(_pinned_conda)]
"""`NAME==VERSION` or `NAME==VERSION=BUILD`."""
Channel = Annotated[str, Field(max_length=200), AfterValidator(_channel)]
"""Name of a conda channel; the server that has it is set on the worker's machine, never in an entry."""

DEFAULT_CHANNELS: Final = ("conda-forge",)


class VirtualenvFields(Spec):
    """A virtual environment. It keeps packages apart, and isolates nothing: the engine runs as the worker's user."""

    python: Annotated[str, AfterValidator(_version)] | None = None
    """Version of Python, such as `3.12`, that the worker's machine, or for conda a channel, must have; None is that of
    the platform."""
    requirements: Annotated[tuple[Requirement, ...], Field(min_length=1, max_length=500)]
    overrides: Annotated[tuple[Override, ...], Field(max_length=500)] = ()
    """What replaces the requirements of packages of packages, for example to leave one out on every platform."""
    manager: Literal["uv", "pip", "conda"] = "uv"
    """What installs the resolved packages. With conda, Python and the packages of `conda` come from channels, and uv
    installs the requirements beside them; uv resolves the requirements in every case."""
    conda: Annotated[tuple[CondaPackage, ...], Field(max_length=500)] = Field(
        default=(), exclude_if=lambda packages: not packages
    )
    """Packages from channels, beside Python."""
    channels: Annotated[tuple[Channel, ...], Field(min_length=1, max_length=10)] = Field(
        default=DEFAULT_CHANNELS, exclude_if=lambda channels: channels == DEFAULT_CHANNELS
    )
    """Channels in the order in which they are preferred: a package comes from the first that has it."""

    @model_validator(mode="after")
    def _channels_need_conda(self) -> Self:
        if self.manager != "conda" and (self.conda or self.channels != DEFAULT_CHANNELS):
            raise Refused("conda and channels need the manager conda", cure="Add manager: conda, or leave them out.")
        return self


class VirtualenvSpec(VirtualenvFields):
    """A pinned virtual environment."""

    kind: Literal["virtualenv"] = "virtualenv"


EnvironmentSpec = VirtualenvSpec
"""Kinds of environments are told apart by `kind`."""
