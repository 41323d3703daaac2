"""What a run asks: a model, an endpoint, or answers that are there already; each pinned."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field, JsonValue

from vlmhyperbench.domain.base import Name, Sha256, Spec
from vlmhyperbench.domain.environments import EnvironmentSpec, VirtualenvSpec
from vlmhyperbench.domain.packages import PackageSpec
from vlmhyperbench.domain.recipes import MMPROJ, WEIGHTS, ModelFile, RecipeSpec
from vlmhyperbench.domain.request_styles import ReasoningMarks, RequestStyle
from vlmhyperbench_sdk.gateway import named_secrets


class PackageRef(Spec):
    """A plugin's distribution and the version that was resolved."""

    distribution: Name
    version: str

    @property
    def label(self) -> str:
        """Name in reports and identities."""
        return f"{self.distribution} {self.version}"


class SourceRef(Spec):
    """The code of a dotted path, which has no distribution and therefore no version."""

    module: Name
    sha256: Sha256
    """Hash of its source and of the other modules of its package."""

    @property
    def label(self) -> str:
        """Name in reports and identities."""
        return f"{self.module} sha256:{self.sha256}"


PluginRef = PackageRef | SourceRef
"""The pinned code of a plugin: runs with equal references ran the same code. Distinguished by their fields."""


class ModelTarget(Spec):
    """A model that an adapter runs."""

    kind: Literal["model"] = "model"
    model: Name
    version: str
    backend: Name
    backend_class: Name
    """Entry-point name of the adapter, or a dotted path."""
    adapter: PluginRef | None = None
    files: tuple[ModelFile, ...] = ()
    engine_params: dict[str, JsonValue] = Field(default_factory=dict)
    quantization: str | None = None
    license: str | None = None
    request_style: RequestStyle = Field(default="openai_chat", exclude_if=lambda style: style == "openai_chat")
    """How its messages are written; left out where it is OpenAI's, as the next two, so that digests did not change."""
    strip_reasoning: bool = Field(default=False, exclude_if=lambda strips: not strips)
    """Whether a pipeline takes the reasoning away wherever it uses an answer of it, as its own answer too."""
    reasoning_marks: tuple[ReasoningMarks, ...] = Field(default=(), exclude_if=lambda marks: not marks)
    """What it writes around its reasoning, beside the usual tags."""
    environment: EnvironmentSpec | None = Field(default=None, exclude_if=lambda environment: environment is None)
    """Where the engine runs; None is the platform's own interpreter, and left out, so that digests did not change."""
    recipe: RecipeSpec | None = Field(default=None, exclude_if=lambda recipe: recipe is None)
    """How files were made that nobody offers; left out where none were."""
    adapter_environment: VirtualenvSpec | None = Field(default=None, exclude_if=lambda environment: environment is None)
    """Where gateway and adapter run, and the engine too unless it has one of its own; left out where the platform's own
    interpreter has the adapter."""

    @property
    def is_text_only(self) -> bool:
        """Whether it is known to read no images: it has GGUF weights and no projector."""
        roles = {file.role for file in self.files}
        return WEIGHTS in roles and MMPROJ not in roles

    @property
    def is_apart(self) -> bool:
        """Whether the engine runs in another environment than the platform's own."""
        return self.environment is not None or self.adapter_environment is not None

    @property
    def brings_its_adapter(self) -> bool:
        """Whether the adapter is run from a package that the target pins, and not from beside the platform."""
        return self.adapter_environment is not None

    @property
    def packages(self) -> tuple[PackageSpec, ...]:
        """Packages of others that adapter and engine need."""
        environments = (self.adapter_environment, self.environment)
        held = [each.packages for each in environments if isinstance(each, VirtualenvSpec)]
        return tuple(dict.fromkeys(package for packages in held for package in packages))

    requires_certificate: tuple[str, ...] | None = Field(default=None, exclude_if=lambda checks: checks is None)
    """Checks of a certificate that must have passed on the worker's machine; empty: none may have failed. None: none is
    needed, and left out, so that digests did not change."""

    @property
    def served_name(self) -> str:
        """The model's name in requests and tables."""
        return self.model

    @property
    def secret_names(self) -> list[str]:
        """Names of the secrets that the target needs."""
        return named_secrets(self.engine_params)


class EndpointTarget(Spec):
    """An OpenAI-compatible endpoint that is not run by the platform."""

    kind: Literal["endpoint"] = "endpoint"
    endpoint: Annotated[str, Field(max_length=2000)]
    model_name: Name
    backend_class: Name = "openai"
    adapter: SourceRef | None = Field(default=None, exclude_if=lambda adapter: adapter is None)
    """Only set for a dotted path; otherwise it is left out, so that digests of endpoints did not change."""
    engine_params: dict[str, JsonValue] = Field(default_factory=dict)

    @property
    def brings_its_adapter(self) -> bool:
        """False: adapters of endpoints are installed beside the platform."""
        return False

    @property
    def served_name(self) -> str:
        """The model's name in requests and tables."""
        return self.model_name

    @property
    def secret_names(self) -> list[str]:
        """Names of the secrets that the target needs."""
        return named_secrets(self.engine_params)


FUNCTION: Final = "function"
"""Format of the answers that a Python function gave in the caller's process."""


class ImportTarget(Spec):
    """Answers that the platform did not ask for: of another tool's file, or of a Python function. Nothing is timed."""

    kind: Literal["import"] = "import"
    model_name: Name
    """Name from the file, or from the user who imports it."""
    format: Name
    """Format of the original file: `lm-eval`, `inspect` …"""
    tool: Annotated[str, Field(max_length=200)] | None = None
    """Name and version of the tool, if the file has them."""
    answers: Sha256
    """Hash of the answers in the neutral format, which is part of their key in storage."""
    decoding: dict[str, JsonValue] = Field(default_factory=dict)
    """Sampling parameters, if the file has them."""

    @property
    def is_function(self) -> bool:
        """Whether a Python function answered the prompts that the platform rendered."""
        return self.format == FUNCTION

    @property
    def served_name(self) -> str:
        """The model's name in tables."""
        return self.model_name

    @property
    def secret_names(self) -> list[str]:
        """Empty, since no request is sent."""
        return []

    @property
    def backend_class(self) -> str:
        """A constant, since no backend answered."""
        return "import"

    @property
    def engine_params(self) -> dict[str, JsonValue]:
        """Empty, since they are unknown."""
        return {}
