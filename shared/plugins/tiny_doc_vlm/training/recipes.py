"""Training recipes: the stages that turn random weights into a reader."""

from __future__ import annotations

from dataclasses import dataclass, replace

from training.asking import ALL_HABITS, FIRST_HABITS, TRANSCRIBING
from training.batches import Mixture


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """A number of steps with the same losses; a loss of weight 0 is not computed.

    A stage without the losses of characters trains only the text model.
    """

    name: str
    steps: int
    rows: int
    """Pages in a step."""
    learning_rate: float
    tower: float
    """Weight of the loss of characters predicted from the vision tower's patches."""
    connector: float
    """Weight of the loss of characters predicted from the connector's tokens."""
    text: float
    """Weight of the language model's loss."""
    decay_steps: int = 0
    """Number of last steps in which the learning rate falls to a tenth; in the last stage it falls with the run."""
    mixture: Mixture | None = None
    """Mixture of the stage, if it differs from the recipe's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """Mixture and stages; the learning rate falls to 0 over the last `decay_steps`."""

    mixture: Mixture
    stages: tuple[Stage, ...]
    decay_steps: int

    @property
    def steps(self) -> int:
        """Total number of steps."""
        return sum(stage.steps for stage in self.stages)

    def first_step_of(self, name: str) -> int:
        """Return the first step of a stage.

        Raises:
            KeyError: there is no such stage.
        """
        done = 0
        for stage in self.stages:
            if stage.name == name:
                return done
            done += stage.steps
        raise KeyError(name)

    def stage_at(self, step: int) -> tuple[Stage, int]:
        """Return the stage of a step (from 0) and the step's number in it; the last stage has no end."""
        for stage in self.stages[:-1]:
            if step < stage.steps:
                return stage, step
            step -= stage.steps
        return self.stages[-1], step


TRANSCRIBING_STAGE = Stage(
    name="transcribing",
    steps=2000,
    rows=16,
    learning_rate=2e-3,
    tower=0,
    connector=0,
    text=1,
    mixture=Mixture(tiers={"clean": 1}, dense=0, digits=0, habits=TRANSCRIBING),
)
"""Mixture that teaches the text model to copy; the README gives the reason."""
RECIPES = {
    "v1": Recipe(
        mixture=Mixture(tiers={"clean": 1}, dense=0, digits=0, habits=FIRST_HABITS),
        stages=(
            Stage(name="tower", steps=250, rows=32, learning_rate=1e-3, tower=1, connector=0, text=0),
            Stage(name="connector", steps=250, rows=32, learning_rate=1e-3, tower=1, connector=1, text=0),
            replace(TRANSCRIBING_STAGE, steps=1500),
            Stage(name="reading", steps=2500, rows=16, learning_rate=7e-4, tower=0, connector=2, text=1),
        ),
        decay_steps=1000,
    ),
    "v2": Recipe(
        mixture=Mixture(
            tiers={"clean": 0.13, "noisy": 0.17, "shifted": 0.54, "fonts": 0.16},
            dense=0.2,
            digits=0.12,
            habits=ALL_HABITS,
        ),
        stages=(
            Stage(name="tower", steps=1000, rows=16, learning_rate=1e-3, tower=1, connector=1, text=0),
            Stage(
                name="connector",
                steps=2500,
                rows=32,
                learning_rate=1e-3,
                tower=1,
                connector=1,
                text=0,
                decay_steps=1000,
            ),
            TRANSCRIBING_STAGE,
            Stage(name="reading", steps=8500, rows=16, learning_rate=7e-4, tower=0, connector=2, text=1),
        ),
        decay_steps=4000,
    ),
}
