"""What every pinned model is made of."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Name = Annotated[str, Field(min_length=1, max_length=200)]


class Spec(BaseModel):
    """Base of every pinned model: immutable, and unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)
