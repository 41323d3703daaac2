"""Basic types of entries: names, references, versions, and their strict base class."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import ConfigDict, Field, JsonValue

from vlmhyperbench.domain.base import SHA256, Refused, StrictNumbers
from vlmhyperbench.domain.packages import COMMIT, EXTRA
from vlmhyperbench_sdk.endpoint import NAMES_OF_SECRETS

_PATTERNS: Mapping[str, str] = {
    "slug": r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$",
    "semver": r"^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?$",
    "metric": r"^[A-Za-z0-9][A-Za-z0-9._-]*(@[A-Za-z0-9._-]+)?(:[0-9A-Za-z.-]+)?$",
    "extractor": r"^[a-z][a-z0-9_]{0,99}(:[1-9]\d{0,3})?$",
    "files": r"^[^/\\\x00][^\\\x00]*$",
    "secret": f"^{NAMES_OF_SECRETS}$",
    "plugin": r"^[A-Za-z0-9_]([A-Za-z0-9_.:-]{0,198}[A-Za-z0-9_])?$",
    "sha256": SHA256,
    "commit": COMMIT,
    "extra": EXTRA,
}

Slug = Annotated[str, Field(pattern=_PATTERNS["slug"])]
Semver = Annotated[str, Field(pattern=_PATTERNS["semver"], max_length=100)]
MetricRef = Annotated[str, Field(pattern=_PATTERNS["metric"], max_length=300)]
"""`name[@profile][:version]`."""
ExtractorName = Annotated[str, Field(pattern=_PATTERNS["extractor"])]
"""`name[:version]`."""
RelativePath = Annotated[str, Field(pattern=_PATTERNS["files"], max_length=1000)]
SecretName = Annotated[str, Field(pattern=_PATTERNS["secret"])]
PluginName = Annotated[str, Field(pattern=_PATTERNS["plugin"])]
"""A registered name, or a dotted path `package.module:Class`."""
Params = dict[str, JsonValue]


SENTENCES: Mapping[str, tuple[str, str]] = {
    "files": (
        "a file of a model is given relative to its folder",
        "Write the folder, which may be absolute, in path, and the rest of the file's path here.",
    ),
    "slug": (
        "it is no name of an entry: up to 100 letters, digits, `.`, `_` and `-`, the first a letter or digit",
        "A model's name at an endpoint is written in model_name, a file's path in path.",
    ),
    "semver": ("it is no version", "Write three numbers, for example 1.0.0."),
    "metric": ("it is no metric", "Write NAME, NAME@PROFILE or NAME@PROFILE:VERSION."),
    "extractor": ("it is no extractor", "Write NAME or NAME:VERSION."),
    "secret": ("it is no name of a secret", "Use letters, digits and `_`; begin with a letter or `_`."),
    "plugin": ("it is no plugin", "Write a registered name, or a dotted path package.module:Class."),
    "commit": ("it is no commit", "Write its 40 digits, as `git rev-parse HEAD` prints them."),
    "extra": ("it is no extra of a package", "Write one name of the package's optional dependencies."),
    "sha256": ("it is no SHA-256", "Write 64 hexadecimal digits, as `sha256sum FILE` prints them."),
}
"""What is wrong with a text of a form, and the cure; a pattern says neither."""


def sentence_of(pattern: str) -> tuple[str, str] | None:
    """Return message and cure for text that does not match a pattern."""
    return next((SENTENCES[name] for name, known in _PATTERNS.items() if known == pattern), None)


class Strict(StrictNumbers):
    """Base of all models of entries: immutable; unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


def without_repeats(names: tuple[str, ...]) -> tuple[str, ...]:
    """Refuse a list with duplicate names."""
    for no, name in enumerate(names):
        if name in names[:no]:
            raise Refused(f"{name!r} is named twice", cure="Remove one of them.")
    return names
