"""The small values that entries are made of: names, references, versions, and the strict base of everything."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, JsonValue

Slug = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")]
Semver = Annotated[str, Field(pattern=r"^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?$")]
MetricRef = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*(@[A-Za-z0-9._-]+)?(:[0-9A-Za-z.-]+)?$")]
"""`name[@profile][:version]`."""
ExtractorName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,99}(:[1-9]\d{0,3})?$")]
"""`name[:version]`."""
RelativePath = Annotated[str, Field(pattern=r"^[^/\\\x00][^\\\x00]*$", max_length=1000)]
SecretName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}$")]
Params = dict[str, JsonValue]


class Strict(BaseModel):
    """Base of everything in an entry: immutable, and unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)
