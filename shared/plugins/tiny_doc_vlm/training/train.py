"""Train the reader: `python -m training.train v2 --out FOLDER`; the same command resumes a stopped run."""

from __future__ import annotations

import argparse
import copy
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from training.batches import Batch, draw_batch
from training.network import Reader
from training.options import at_least_one, none_or_more, run
from training.recipes import RECIPES, Recipe
from training.steps import Optimizers, Tally, train_step

CHECKPOINT = "checkpoint.pt"
WARM_STEPS = 100
MIN_DECAY = 0.1
MAX_MEMORY_STEPS = 500
"""The exported weights are a moving average over the last tenth of the run, but at most over this number of steps."""
LOG_STEPS, SAVE_STEPS = 25, 200
_STOPPING = (signal.SIGTERM, signal.SIGINT)
NOTHING_LEFT = "Nothing is left to train: the next step would be {step}, and the run ends before {until}."


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The arguments of a training run."""

    recipe: Recipe
    out: Path
    start: Path | None
    """Folder of exported weights from which to start; the run then begins with the connector's stage."""
    seed: int
    device: str
    workers: int
    """Number of processes that prepare batches; the batches do not depend on it."""
    is_rounded: bool = False
    """Whether matrices are multiplied in bfloat16."""
    until: int | None = None
    """Number of steps after which the run ends; None: the end that was given last, or else the recipe's."""
    decay_steps: int | None = None
    """Number of last steps in which the learning rate falls to 0; None: as given with that end, or the recipe's."""

    @property
    def identity(self) -> dict[str, str]:
        """Options that must be unchanged when a run is resumed, by name."""
        start = "" if self.start is None else str(self.start.resolve())
        return {
            "recipe": repr(self.recipe),
            "--seed": str(self.seed),
            "--bfloat16": str(self.is_rounded),
            "--start": start,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """The schedule of the learning rate, relative to each stage's."""

    recipe: Recipe
    until: int
    decay_steps: int

    def rate_at(self, step: int) -> float:
        """Return the relative rate at a step: it rises at the beginning of a stage and falls at its end."""
        stage, number = self.recipe.stage_at(step)
        rising = min(1.0, (number + 1) / WARM_STEPS)
        falling = min(1.0, (self.until - step) / self.decay_steps) if self.decay_steps else 1.0
        if stage.decay_steps:
            falling = min(falling, max(MIN_DECAY, (stage.steps - number) / stage.decay_steps))
        return min(rising, falling)


class Checkpoint(TypedDict):
    """The saved state of a run."""

    identity: dict[str, str]
    until: int
    decay_steps: int
    step: int
    """The next one."""
    began: int
    reader: dict[str, Tensor]
    mean: dict[str, Tensor]
    optimizers: list[dict[str, object]]


def main(arguments: list[str]) -> None:
    """Parse the command line, and train until the end or a signal."""
    parser = argparse.ArgumentParser(prog="python -m training.train", description=__doc__)
    parser.add_argument("recipe", choices=sorted(RECIPES))
    parser.add_argument("--out", type=Path, required=True, help="folder of the checkpoint")
    parser.add_argument("--start", type=Path, help="folder of exported weights to start from")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--until", type=at_least_one, help="end before this step (default: the recipe's steps)")
    parser.add_argument("--decay", type=none_or_more, help="steps at the end in which the learning rate falls to 0")
    parser.add_argument("--workers", type=at_least_one, default=1, help="processes that draw pages (default 1)")
    parser.add_argument(
        "--bfloat16",
        action="store_true",
        help="multiply in bfloat16: quicker where the processor can, else much slower",
    )
    given = parser.parse_args(arguments)
    stopping = threading.Event()
    for number in _STOPPING:
        signal.signal(number, lambda *_: stopping.set())
    train(
        Plan(
            recipe=RECIPES[given.recipe],
            out=given.out,
            start=given.start,
            seed=given.seed,
            device=given.device,
            workers=given.workers,
            is_rounded=given.bfloat16,
            until=given.until,
            decay_steps=given.decay,
        ),
        is_stopped=stopping.is_set,
    )


def train(plan: Plan, *, is_stopped: Callable[[], bool] = lambda: False) -> None:
    """Train from the checkpoint in the folder, or from the start; save checkpoints regularly and at the end.

    Args:
        plan: The arguments of the run.
        is_stopped: Called after every step; true saves a checkpoint and ends the run.

    Raises:
        SystemExit: the folder belongs to another run, or the learning rate would fall over more steps than there are.
    """
    torch.manual_seed(plan.seed)
    plan.out.mkdir(parents=True, exist_ok=True)
    file = plan.out / CHECKPOINT
    checkpoint = _read_checkpoint(file, plan)
    schedule = _schedule(plan, checkpoint)
    reader = Reader()
    first = began = 0 if plan.start is None else plan.recipe.first_step_of("connector")
    if plan.start is not None and checkpoint is None:
        reader.load_weights(plan.start)
    if plan.is_rounded:
        reader.multiply_in_bfloat16()
    reader = reader.to(plan.device)
    mean = copy.deepcopy(reader.model)
    optimizers = Optimizers(reader)
    if checkpoint is not None:
        first, began = checkpoint["step"], checkpoint["began"]
        reader.load_state_dict(checkpoint["reader"])
        mean.load_state_dict(checkpoint["mean"])
        optimizers.load(checkpoint["optimizers"])
    if first >= schedule.until:
        print(NOTHING_LEFT.format(step=first, until=schedule.until))
        return
    reader.train()
    tally, since = Tally(), time.monotonic()
    for step, batch in zip(range(first, schedule.until), _batches(plan, first, schedule.until), strict=True):
        stage, _ = plan.recipe.stage_at(step)
        rate = stage.learning_rate * schedule.rate_at(step)
        train_step(reader, optimizers, batch, stage, learning_rate=rate, tally=tally)
        _follow(mean, reader, memory_steps=min(MAX_MEMORY_STEPS, 1 + (step - began) // 10))
        if (step + 1) % LOG_STEPS == 0:
            seconds = (time.monotonic() - since) / tally.steps
            print(f"{time.strftime('%H:%M:%S')} {stage.name} {step + 1} {seconds:.2f} s {tally.line()}", flush=True)
            tally, since = Tally(), time.monotonic()
        ends = is_stopped()
        if ends or (step + 1) % SAVE_STEPS == 0 or step + 1 == schedule.until:
            state: Checkpoint = {
                "identity": plan.identity,
                "until": schedule.until,
                "decay_steps": schedule.decay_steps,
                "step": step + 1,
                "began": began,
                "reader": reader.state_dict(),
                "mean": mean.state_dict(),
                "optimizers": optimizers.state(),
            }
            _save(file, state)
        if ends:
            break


def _read_checkpoint(file: Path, plan: Plan) -> Checkpoint | None:
    """Read the checkpoint of a run that is resumed; None for a new run."""
    if not file.exists():
        return None
    checkpoint: Checkpoint = torch.load(file, map_location=plan.device)
    for option, value in plan.identity.items():
        if checkpoint["identity"].get(option) != value:
            raise SystemExit(f"{file} was begun with another {option}: give --out another folder.")
    return checkpoint


def _schedule(plan: Plan, checkpoint: Checkpoint | None) -> Schedule:
    """Make the schedule up to the end of this call, or else the end given last, or else the recipe's."""
    until, decay_steps = plan.recipe.steps, plan.recipe.decay_steps
    if plan.until is not None:
        until = plan.until
    elif checkpoint is not None:
        until, decay_steps = checkpoint["until"], checkpoint["decay_steps"]
    decay_steps = decay_steps if plan.decay_steps is None else plan.decay_steps
    if decay_steps > until:
        raise SystemExit(f"The learning rate would fall over the last {decay_steps} of {until} steps: give --decay.")
    return Schedule(recipe=plan.recipe, until=until, decay_steps=decay_steps)


class _Steps(Dataset[Batch]):
    """Batches by step."""

    def __init__(self, plan: Plan, first: int, until: int) -> None:
        self._plan, self._first, self._until = plan, first, until

    def __len__(self) -> int:
        return self._until - self._first

    def __getitem__(self, number: int) -> Batch:
        step = self._first + number
        stage, _ = self._plan.recipe.stage_at(step)
        mixture = stage.mixture or self._plan.recipe.mixture
        return draw_batch(mixture, seed=self._plan.seed, step=step, rows=stage.rows, has_text=stage.text > 0)


def _batches(plan: Plan, first: int, until: int) -> Iterator[Batch]:
    """Prepare batches in child processes, in the order of the steps."""
    steps = _Steps(plan, first, until)
    return iter(
        DataLoader(
            steps, batch_size=None, num_workers=plan.workers, prefetch_factor=8, worker_init_fn=_leave_the_end_to_main
        )
    )


def _leave_the_end_to_main(_: int) -> None:
    """Ignore a signal to the process group: the training process saves first and then ends its workers."""
    for number in _STOPPING:
        signal.signal(number, signal.SIG_IGN)


@torch.no_grad()
def _follow(mean: torch.nn.Module, reader: Reader, *, memory_steps: int) -> None:
    for averaged, new in zip(mean.parameters(), reader.model.parameters(), strict=True):
        averaged.lerp_(new, 1 / memory_steps)


def _save(file: Path, state: Checkpoint) -> None:
    """Write a checkpoint atomically: if the run is killed meanwhile, the previous one remains."""
    unfinished = file.with_suffix(".part")
    torch.save(state, unfinished)
    unfinished.replace(file)


if __name__ == "__main__":
    sys.exit(run(main))
