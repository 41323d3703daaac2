"""Pinned environments of engines: what an engine runs in, apart from the platform's own packages."""

from __future__ import annotations

from typing import Annotated, Final, Literal, Self, TypeAlias

from pydantic import Field, model_validator

from vlmhyperbench.domain.base import Refused, Sha256, Spec, written_as
from vlmhyperbench.domain.packages import PackageSpec

_NAME: Final = r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?(?:\[[A-Za-z0-9._, -]+\])?"
_VERSION: Final = r" ?== ?[A-Za-z0-9][A-Za-z0-9.!+_-]*"
_MARKER: Final = r"(?: ?; ?[^\n\r;]+)?"

PythonVersion = Annotated[
    str,
    written_as(
        r"3\.\d{1,2}(\.\d{1,3})?",
        "it is no version of Python",
        cure="Write a version in quotes, such as '3.12'.",
    ),
]
Requirement = Annotated[
    str,
    Field(max_length=500),
    written_as(
        _NAME + _VERSION + _MARKER,
        "it is no requirement of one exact version",
        cure="Write NAME==VERSION, with extras and a marker where needed: "
        "vllm[audio]==0.32.0 ; python_version < '3.13'.",
    ),
]
"""`NAME[EXTRAS]==VERSION ; MARKER`; options of an installer, URLs and ranges are refused."""
Requirements = Annotated[tuple[Requirement, ...], Field(max_length=500)]
Override = Annotated[
    str,
    Field(max_length=500),
    written_as(
        f"{_NAME}(?:{_VERSION})?{_MARKER}",
        "it is no override",
        cure="Write NAME==VERSION, or NAME ; MARKER, such as \"torchvision ; sys_platform == 'never'\".",
    ),
]
"""A requirement that replaces what other packages say of this one; without a version only its marker counts."""
Overrides = Annotated[tuple[Override, ...], Field(max_length=500)]
CondaPackage = Annotated[
    str,
    Field(max_length=200),
    written_as(
        r"[a-z0-9_][a-z0-9._-]*==[A-Za-z0-9][A-Za-z0-9.!+_]*(?:=[A-Za-z0-9][A-Za-z0-9._]*)?",
        "it is no conda package of one exact version",
        cure="Write NAME==VERSION, or NAME==VERSION=BUILD, such as ffmpeg==7.1.0.",
    ),
]
"""`NAME==VERSION` or `NAME==VERSION=BUILD`."""
Channel = Annotated[
    str,
    Field(max_length=200),
    written_as(
        r"[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)*",
        "it is no name of a channel",
        cure="Write its name, such as conda-forge. CONDA_CHANNEL_ALIAS of the worker says which server has it.",
    ),
]
"""Name of a conda channel; the server that has it is set on the worker's machine, never in an entry."""
Image = Annotated[
    str,
    Field(max_length=500),
    written_as(
        r"(?:[a-z0-9][A-Za-z0-9._:/-]*@)?sha256:[0-9a-f]{64}",
        "it names no image by its digest",
        cure="Write the image's id, which `docker image inspect --format '{{.Id}}' NAME` prints, or "
        "NAME@sha256:DIGEST.",
    ),
]
"""`sha256:ID` of an image on the worker's machine, or `NAME@sha256:DIGEST`."""
Accelerators = Annotated[
    str,
    Field(max_length=100),
    written_as(
        r"[A-Za-z0-9][A-Za-z0-9-]*:[1-9][0-9]?",
        "it names no accelerators",
        cure="Write NAME:NUMBER, such as L4:1 or H100:8.",
    ),
]
"""`NAME:NUMBER`."""

DEFAULT_CHANNELS: Final = ("conda-forge",)


class VirtualenvFields(Spec):
    """A virtual environment. It keeps packages apart, and isolates nothing: the engine runs as the worker's user."""

    python: PythonVersion | None = None
    """Version of Python, such as `3.12`, that the worker's machine, or for conda a channel, must have; None is that of
    the platform."""
    requirements: Requirements = ()
    overrides: Overrides = ()
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
    packages: tuple[PackageSpec, ...] = Field(default=(), exclude_if=lambda packages: not packages)
    """Packages of others, from repositories, folders or an index; left out of the digest if there are none."""


class ContainerFields(Spec):
    """What all containers declare: the interpreter in their image, and the most that an engine may take."""

    python: Annotated[str, Field(pattern=r"^[A-Za-z0-9/][A-Za-z0-9/._-]*$", max_length=300)] = "python3"
    """Interpreter of the engine in the image: a path, or a name on the image's PATH."""
    memory_gib: Annotated[float, Field(gt=0.01, le=100_000)] | None = None
    """Memory of all its processes; the kernel kills the engine that needs more. None: no limit."""
    cpus: Annotated[float, Field(gt=0.01, le=10_000)] | None = None
    """Processor time, in cores; None: no limit."""


class DockerFields(ContainerFields):
    """A container of a Docker image, without rights and without a network unless it is declared."""

    image: Image
    pull: Literal["never", "missing"] = "never"
    """Whether an image that is not on the machine is pulled; only `NAME@sha256:DIGEST` can be."""
    network: bool = False
    """Whether the engine may open connections to other machines."""
    max_processes: Annotated[int, Field(ge=16, le=4_000_000)] = 4096
    """Processes and threads."""
    shared_memory_gib: Annotated[float, Field(gt=0.01, le=100_000)] = 1.0
    """Size of `/dev/shm`, through which the processes of an engine exchange tensors."""
    scratch_gib: Annotated[float, Field(gt=0.01, le=100_000)] = 4.0
    """Size of `/tmp`, the only folder that can be written; it is in memory."""

    @model_validator(mode="after")
    def _what_is_pulled_has_a_name(self) -> DockerFields:
        if self.pull != "never" and "@" not in self.image:
            raise Refused("an image's id cannot be pulled", cure="Write NAME@sha256:DIGEST, or leave pull out.")
        return self


class DockerSpec(DockerFields):
    """A pinned Docker container."""

    kind: Literal["docker"] = "docker"


class ApptainerFields(ContainerFields):
    """A container of Apptainer, for machines without Docker; it has the network of the machine."""

    file: Annotated[str, Field(pattern=r"^/", max_length=4000)] | None = None
    """Path of a SIF, or of an archive that `docker save` wrote, on the worker's machine."""
    sha256: Sha256 | None = None
    """Hash of `file`."""
    definition: Annotated[str, Field(min_length=1, max_length=100_000)] | None = None
    """Text of a definition file, in place of `file`."""
    max_processes: Annotated[int, Field(ge=16, le=4_000_000)] | None = None
    """Processes and threads; None: no limit, because many machines let Apptainer set none."""

    @model_validator(mode="after")
    def _has_one_source(self) -> ApptainerFields:
        if (self.file is None) == (self.definition is None):
            raise Refused("a container has one source", cure="Write either file with its sha256, or definition.")
        if (self.file is None) != (self.sha256 is None):
            raise Refused("file and sha256 belong together", cure="Write what `sha256sum FILE` prints as sha256.")
        return self


class ApptainerSpec(ApptainerFields):
    """A pinned container of Apptainer."""

    kind: Literal["apptainer"] = "apptainer"


Cloud: TypeAlias = Literal[
    "aws", "azure", "cudo", "do", "fluidstack", "gcp", "lambda", "nebius", "oci", "paperspace", "runpod", "vast"
]
"""Providers of machines, by SkyPilot's names."""


class RentedFields(Spec):
    """A machine that is rented for as long as the engine is loaded, and the packages of the engine on it."""

    cloud: Cloud
    region: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]*$", max_length=100)] | None = None
    """Region of the provider; None: the cheapest that has such a machine."""
    accelerators: Accelerators
    max_hourly_cost_usd: Annotated[float, Field(gt=0, le=1000)]
    """A machine that costs more is not rented."""
    image: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:/@-]*$", max_length=500)] | None = None
    """Image of the machine in the provider's words, such as `docker:NAME`; None: SkyPilot's choice."""
    disk_gib: Annotated[int, Field(ge=20, le=10_000)] = 100
    is_spot: bool = False
    """Whether the provider may take the machine back at any time, for a lower price."""
    max_idle_minutes: Annotated[float, Field(ge=0.1, le=600)] = 10
    """After this time without a job the machine is returned; one that lost its worker ends itself, after 2 or more."""
    max_start_minutes: Annotated[float, Field(gt=0, le=240)] = 30
    """How long the machine may take until it can be logged in to."""
    python: PythonVersion = "3.11"
    requirements: Annotated[Requirements, Field(min_length=1)]
    overrides: Overrides = ()


class RentedSpec(RentedFields):
    """A pinned rented machine."""

    kind: Literal["remote"] = "remote"


EnvironmentSpec: TypeAlias = Annotated[
    VirtualenvSpec | DockerSpec | ApptainerSpec | RentedSpec, Field(discriminator="kind")
]
"""Kinds of environments are told apart by `kind`."""
