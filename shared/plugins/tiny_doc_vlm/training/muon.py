"""The optimizer Muon in single precision: a matrix moves along the nearest orthogonal matrix to its momentum.

torch's own implementation computes in bfloat16, which is twenty times slower on processors without matrix units for
it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import torch
from torch import Tensor, nn

_COEFFICIENTS = (3.4445, -4.7750, 2.0315)
"""Coefficients of the quintic iteration, with singular values of about 0.7 to 1.2 as result (Jordan et al. 2024)."""
_ITERATIONS = 5
_AS_LARGE_AS_ADAMW = 0.2
"""With this factor times the root of the longer side, updates are as large as AdamW's (Liu 2025, arXiv:2502.16982)."""


class Muon(torch.optim.Optimizer):
    """Orthogonalised Nesterov momentum; for matrices only."""

    def __init__(
        self, weights: Iterable[nn.Parameter], *, lr: float = 1e-3, momentum: float = 0.95, weight_decay: float = 0.01
    ) -> None:
        super().__init__(weights, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # noqa: ARG002 - every optimizer has it
        """Update the weights that have gradients; matrices of the same shape are orthogonalised together."""
        for group in self.param_groups:
            by_shape: defaultdict[torch.Size, list[tuple[nn.Parameter, Tensor]]] = defaultdict(list)
            for weight in group["params"]:
                if weight.grad is not None:
                    state = self.state[weight]
                    if "momentum" not in state:
                        state["momentum"] = torch.zeros_like(weight)
                    momentum = state["momentum"].lerp_(weight.grad, 1 - group["momentum"])
                    by_shape[weight.shape].append((weight, weight.grad.lerp(momentum, group["momentum"])))
            for shape, moves in by_shape.items():
                size = group["lr"] * _AS_LARGE_AS_ADAMW * max(shape) ** 0.5
                for (weight, _), move in zip(moves, orthogonal(torch.stack([move for _, move in moves])), strict=True):
                    weight.mul_(1 - group["lr"] * group["weight_decay"]).add_(move, alpha=-size)


def orthogonal(matrices: Tensor) -> Tensor:
    """Return matrices whose singular values are near 1, with the same singular vectors. Shape: (matrices, …, …)."""
    first, third, fifth = _COEFFICIENTS
    is_tall = matrices.shape[-2] > matrices.shape[-1]
    wide = matrices.mT if is_tall else matrices
    wide = wide / wide.norm(dim=(-2, -1), keepdim=True).clamp(min=1e-7)
    for _ in range(_ITERATIONS):
        square = wide @ wide.mT
        wide = first * wide + (third * square + fifth * square @ square) @ wide
    return wide.mT if is_tall else wide
