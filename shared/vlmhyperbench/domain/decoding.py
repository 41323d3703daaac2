"""The sampling parameters of requests."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from vlmhyperbench.domain.base import Spec

StopText = Annotated[str, Field(min_length=1, max_length=1000)]


class Decoding(Spec):
    """Sampling parameters; None leaves the value to the engine."""

    temperature: Annotated[float, Field(ge=0, le=2)] | None = 0.0
    top_p: Annotated[float, Field(ge=0, le=1)] | None = None
    top_k: Annotated[int, Field(ge=0)] | None = None
    min_p: Annotated[float, Field(ge=0, le=1)] | None = None
    max_tokens: Annotated[int, Field(ge=1, le=1_000_000)] = 256
    stop: Annotated[tuple[StopText, ...], Field(max_length=16)] = ()
    """Stop sequences; the maximum number is the smallest of the supported engines."""
    seed: int | None = None
    n: Annotated[int, Field(ge=1, le=64)] = 1
    """Number of answers per sample, each of which is a repeat of the request."""
