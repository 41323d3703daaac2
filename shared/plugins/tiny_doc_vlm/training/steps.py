"""A training step: losses, gradients, weights, and counts of right predictions."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from statistics import fmean

import torch
from torch import Tensor, nn
from torch.nn import functional

from training.batches import NO_TARGET, Batch
from training.drawing import CLASSES, SLOTS, UNKNOWN
from training.muon import Muon
from training.network import Reader
from training.recipes import Stage

MAX_GRADIENT_NORM = 1.0
CHARACTERS_PER_TOKEN = 2
"""Of the pages' own grid."""


@dataclass(slots=True, kw_only=True)
class Tally:
    """Counts of right predictions since the last line of the log."""

    right: Counter[str] = field(default_factory=Counter)
    all: Counter[str] = field(default_factory=Counter)
    losses: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    """Number of steps with each loss: digits have no labels of characters."""
    steps: int = 0

    def line(self) -> str:
        """Return the mean losses and the shares of right characters and right answers by tier and kind."""
        losses = (f"{name} {fmean(values):.4f}" for name, values in self.losses.items())
        shares = (f"{name} {self.right[name] / count:.3f}" for name, count in sorted(self.all.items()) if count)
        return " ".join((*losses, "|", *shares))


class Optimizers:
    """Muon for the matrices inside the layers, AdamW for all other weights."""

    def __init__(self, reader: Reader) -> None:
        matrices, others = [], []
        for name, weight in reader.named_parameters():
            is_inside = weight.ndim == 2 and (".layers." in name or "modality_projection" in name)
            (matrices if is_inside else others).append(weight)
        self._all: tuple[torch.optim.Optimizer, ...] = (
            Muon(matrices),
            torch.optim.AdamW(others, betas=(0.9, 0.98), weight_decay=0.01),
        )

    def step(self, learning_rate: float) -> None:
        """Update the weights by their gradients, and reset the gradients."""
        for optimizer in self._all:
            for group in optimizer.param_groups:
                group["lr"] = learning_rate
            optimizer.step()
            optimizer.zero_grad()

    def state(self) -> list[dict[str, object]]:
        """Return the state from which a later run can resume."""
        return [optimizer.state_dict() for optimizer in self._all]

    def load(self, states: list[dict[str, object]]) -> None:
        """Restore the state that `state` returned."""
        for optimizer, state in zip(self._all, states, strict=True):
            optimizer.load_state_dict(state)


def train_step(
    reader: Reader, optimizers: Optimizers, batch: Batch, stage: Stage, *, learning_rate: float, tally: Tally
) -> None:
    """Perform a step and add its counts to the tally."""
    device = next(reader.parameters()).device
    tiles = torch.from_numpy(batch.tiles).to(device)
    if not stage.text:  # The overview has no labels of characters.
        tiles = tiles[:, :-1]
    # Without labels of characters the vision tower is not trained, so that it does not forget other pages.
    with torch.set_grad_enabled(bool(stage.tower or stage.connector)):
        joined, tokens = (out.unflatten(0, tiles.shape[:2]) for out in reader.look(tiles.flatten(0, 1)))
    total = torch.zeros((), device=device)
    characters = torch.from_numpy(batch.characters).to(device)
    count = characters.shape[1]
    for name, weight, head, out in (
        ("tower", stage.tower, reader.tower_head, joined),
        ("connector", stage.connector, reader.connector_head, tokens),
    ):
        if weight:
            total = total + weight * _name_characters(name, head, out[:, :count], characters, tally)
    if stage.text:
        total = total + stage.text * _read_text(reader, batch, tokens, tally)
    total.backward()
    nn.utils.clip_grad_norm_(reader.parameters(), MAX_GRADIENT_NORM)
    optimizers.step(learning_rate)
    tally.steps += 1


def _name_characters(name: str, head: nn.Linear, out: Tensor, characters: Tensor, tally: Tally) -> Tensor:
    """Return the loss of the characters at each token; 0 for a batch of digits."""
    wanted = characters.flatten()
    logits = head(out).reshape(-1, CLASSES)
    known = wanted != UNKNOWN
    if not known.any():
        return logits.sum() * 0
    # Most slots are empty, which is learnt soon; a mean over all slots would hide the others.
    loss = SLOTS / CHARACTERS_PER_TOKEN * functional.cross_entropy(logits[known], wanted[known])
    is_ink = wanted > 0
    tally.losses[name].append(loss.item())
    tally.right[name] += int((logits.argmax(-1) == wanted)[is_ink].sum())
    tally.all[name] += int(is_ink.sum())
    return loss


def _read_text(reader: Reader, batch: Batch, tokens: Tensor, tally: Tally) -> Tensor:
    device = tokens.device
    ids, positions, segments, targets = (
        torch.from_numpy(array).to(device) for array in (batch.ids, batch.positions, batch.segments, batch.targets)
    )
    is_wanted = targets != NO_TARGET
    hidden = reader.read(ids, tokens, positions, segments, is_wanted)
    logits = hidden @ reader.model.model.text_model.embed_tokens.weight.T
    wanted = targets[is_wanted]
    loss = functional.cross_entropy(logits, wanted)
    tally.losses["text"].append(loss.item())
    _count_answers(batch, is_wanted, segments, logits.argmax(-1) == wanted, tally)
    return loss


def _count_answers(batch: Batch, is_wanted: Tensor, segments: Tensor, is_right: Tensor, tally: Tally) -> None:
    """Count the answers of which every token was predicted right, given the right previous tokens."""
    wrong = torch.zeros(len(batch.tiers), int(segments.max()) + 1, dtype=torch.long, device=segments.device)
    rows = is_wanted.nonzero()[:, 0]
    wrong.index_put_((rows, segments[is_wanted]), (~is_right).long(), accumulate=True)
    for tier, kinds, row in zip(batch.tiers, batch.kinds, wrong.tolist(), strict=True):
        for kind, count in zip(kinds, row[1:], strict=False):
            for name in {tier, kind}:
                tally.right[name] += count == 0
                tally.all[name] += 1
