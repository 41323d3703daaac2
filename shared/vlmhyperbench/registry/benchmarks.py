"""Parts of a task's entry that are known of a public benchmark: its data, its official rules, and how tools differ."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from vlmhyperbench.registry.values import Strict

Fact = Annotated[str, Field(min_length=1, max_length=2000)]


class HarnessRule(Strict):
    """How an evaluation harness asks and scores the benchmark."""

    harness: Literal["lm-evaluation-harness", "lmms-eval", "OpenCompass", "VLMEvalKit"]
    task: Fact
    """Its name there."""
    prompt: Fact
    scoring: Fact


class Benchmark(Strict):
    """A public benchmark: facts that others state, and what was run here."""

    license: Fact | None = None
    """Licence that the repository of the data states; None if it states none."""
    samples: Annotated[int, Field(ge=1)]
    """Number of samples of the split."""
    prompt: Fact
    """Where the prompt comes from."""
    scoring: Fact
    """The official metric and its normaliser."""
    harnesses: Annotated[tuple[HarnessRule, ...], Field(max_length=3)] = ()
    differences: Fact | None = None
    """Where the harnesses disagree."""
    rule: Fact
    """Which rule was taken, and why."""
    lacks: Fact | None = None
    """What is official and not computed here."""
    not_found: Fact | None = None
    """Facts of the data (revision, licence, size) that were looked for and not found; all others were seen."""
    sources: Annotated[tuple[Annotated[str, Field(pattern=r"^https://")], ...], Field(min_length=1, max_length=10)]
    """Pages and files from which these facts were taken."""
    verified: Literal["fixture"] = "fixture"
    """What was run here: `fixture` is a few drawn rows in the schema of the data, never the data itself."""
