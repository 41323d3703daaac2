"""Train the reader: `python -m training.train v2 --out FOLDER`; run it again, and it goes on where it stopped."""

from __future__ import annotations

import argparse
import copy
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from torch.utils.data import DataLoader, Dataset

from training.batches import Batch, draw_batch
from training.network import Reader
from training.recipes import RECIPES, Recipe
from training.steps import Optimizers, Tally, train_step

CHECKPOINT = "checkpoint.pt"
WARM_STEPS = 100
LEAST_OF_STAGE = 0.1
LONGEST_MEMORY_STEPS = 500
"""The averaged weights, which are the ones exported, forget over a tenth of the run, and over so many steps at most."""
LOG_STEPS, SAVE_STEPS = 25, 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What one call of the command trains."""

    recipe: Recipe
    out: Path
    start: Path | None
    """A folder of exported weights; the run then begins with the connector's stage."""
    seed: int
    device: str
    until: int
    """The number of the step before which it ends."""
    decay_steps: int
    workers: int
    """Processes that draw ahead; what they draw does not depend on how many they are."""
    is_rounded: bool = False
    """Matrices are multiplied in bfloat16."""

    @property
    def identity(self) -> dict[str, str]:
        """What a run that goes on has to have in common with the one that began, by the name of its option."""
        return {"recipe": repr(self.recipe), "--seed": str(self.seed), "--bfloat16": str(self.is_rounded)}


def main(arguments: list[str]) -> None:
    """Read the command line, and train."""
    parser = argparse.ArgumentParser(prog="python -m training.train", description=__doc__)
    parser.add_argument("recipe", choices=sorted(RECIPES))
    parser.add_argument("--out", type=Path, required=True, help="folder of the checkpoint")
    parser.add_argument("--start", type=Path, help="folder of exported weights to start from")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--until", type=int, help="end before this step (default: the recipe's steps)")
    parser.add_argument("--decay", type=int, help="steps at the end in which the learning rate falls to 0")
    parser.add_argument("--workers", type=_at_least_one, default=1, help="processes that draw pages (default 1)")
    parser.add_argument(
        "--bfloat16",
        action="store_true",
        help="multiply in bfloat16: quicker where the processor can, else much slower",
    )
    given = parser.parse_args(arguments)
    recipe = RECIPES[given.recipe]
    train(
        Plan(
            recipe=recipe,
            out=given.out,
            start=given.start,
            seed=given.seed,
            device=given.device,
            until=recipe.steps if given.until is None else given.until,
            decay_steps=recipe.decay_steps if given.decay is None else given.decay,
            workers=given.workers,
            is_rounded=given.bfloat16,
        )
    )


def _at_least_one(text: str) -> int:
    if int(text) < 1:
        raise argparse.ArgumentTypeError("somebody has to draw pages")
    return int(text)


def train(plan: Plan) -> None:
    """Train from the checkpoint in the folder, or from its absence; keep a checkpoint on the way and at the end."""
    torch.manual_seed(plan.seed)
    reader = Reader()
    first = 0
    if plan.start is not None:
        reader.load_weights(plan.start)
        first = plan.recipe.first_step_of("connector")
    began = first
    if plan.is_rounded:
        reader.multiply_in_bfloat16()
    reader = reader.to(plan.device)
    mean = copy.deepcopy(reader.model)
    optimizers = Optimizers(reader)
    file = plan.out / CHECKPOINT
    if file.exists():
        kept = torch.load(file, map_location=plan.device)
        for option, value in plan.identity.items():
            if kept.get("identity", {}).get(option) != value:
                raise SystemExit(f"{file} was begun with another {option}: give --out another folder.")
        first, began = kept["step"], kept["began"]
        reader.load_state_dict(kept["reader"])
        mean.load_state_dict(kept["mean"])
        optimizers.load(kept["optimizers"])
    if first >= plan.until:
        print(f"Nothing is left to train: the next step would be {first}, and the run ends before {plan.until}.")
        return
    reader.train()
    is_stopped = False

    def stop(*_: object) -> None:
        nonlocal is_stopped
        is_stopped = True

    signal.signal(signal.SIGTERM, stop)
    tally, since = Tally(), time.monotonic()
    step = first
    for step, batch in zip(range(first, plan.until), _batches(plan, first), strict=False):
        stage, _ = plan.recipe.stage_at(step)
        rate = stage.learning_rate * rate_at(plan, step)
        train_step(reader, optimizers, batch, stage, learning_rate=rate, tally=tally)
        _follow(mean, reader, memory_steps=min(LONGEST_MEMORY_STEPS, 1 + (step - began) // 10))
        if (step + 1) % LOG_STEPS == 0:
            seconds = (time.monotonic() - since) / tally.steps
            print(f"{time.strftime('%H:%M:%S')} {stage.name} {step + 1} {seconds:.2f} s {tally.line()}", flush=True)
            tally, since = Tally(), time.monotonic()
        if is_stopped or (step + 1) % SAVE_STEPS == 0 or step + 1 == plan.until:
            state = {
                "identity": plan.identity,
                "step": step + 1,
                "began": began,
                "reader": reader.state_dict(),
                "mean": mean.state_dict(),
                "optimizers": optimizers.state(),
            }
            _save(file, state)
        if is_stopped:
            break


def rate_at(plan: Plan, step: int) -> float:
    """Return the share of the learning rate at a step: it rises where a stage begins, and falls where one ends."""
    stage, number = plan.recipe.stage_at(step)
    rising = min(1.0, (number + 1) / WARM_STEPS)
    falling = min(1.0, (plan.until - step) / plan.decay_steps) if plan.decay_steps else 1.0
    if stage.decay_steps:
        falling = min(falling, max(LEAST_OF_STAGE, (stage.steps - number) / stage.decay_steps))
    return min(rising, falling)


class _Steps(Dataset[Batch]):
    """Batches by the number of their step."""

    def __init__(self, plan: Plan, first: int) -> None:
        self._plan, self._first = plan, first

    def __len__(self) -> int:
        return self._plan.until - self._first

    def __getitem__(self, number: int) -> Batch:
        step = self._first + number
        stage, _ = self._plan.recipe.stage_at(step)
        mixture = stage.mixture or self._plan.recipe.mixture
        return draw_batch(mixture, seed=self._plan.seed, step=step, rows=stage.rows, has_text=stage.text > 0)


def _batches(plan: Plan, first: int) -> Iterator[Batch]:
    """Draw ahead in processes of their own; the order is that of the steps."""
    return iter(DataLoader(_Steps(plan, first), batch_size=None, num_workers=plan.workers, prefetch_factor=8))


@torch.no_grad()
def _follow(mean: torch.nn.Module, reader: Reader, *, memory_steps: int) -> None:
    for kept, new in zip(mean.parameters(), reader.model.parameters(), strict=True):
        kept.lerp_(new, 1 / memory_steps)


def _save(file: Path, state: dict[str, object]) -> None:
    """Write a checkpoint; a run that is killed meanwhile leaves the one before."""
    file.parent.mkdir(parents=True, exist_ok=True)
    unfinished = file.with_suffix(".part")
    torch.save(state, unfinished)
    unfinished.replace(file)


if __name__ == "__main__":
    main(sys.argv[1:])
