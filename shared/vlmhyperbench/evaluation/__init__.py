"""Evaluate a Python function on a task in this process, without a stack.

A name is imported when it is first used, so that importing the package imports none of the libraries of reports.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vlmhyperbench.evaluation.calling import Example
    from vlmhyperbench.evaluation.evaluating import evaluate
    from vlmhyperbench.evaluation.results import Evaluation

__all__ = ["Evaluation", "Example", "evaluate"]
_MODULES = {"Evaluation": "results", "Example": "calling", "evaluate": "evaluating"}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
