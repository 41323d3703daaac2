"""Do without torchvision where it cannot be imported, so that transformers prepares images by Pillow.

A torch for processors beside a torchvision for graphics cards is such a case: transformers looks whether it is
installed, not whether it works. Models whose processors need it, such as those that take videos, do not load then.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from typing import Any


def hide_unusable(name: str = "torchvision") -> str | None:
    """Import torchvision if it is installed; hide it from transformers and return why, if that fails."""
    if importlib.util.find_spec(name) is None:
        return None
    try:
        importlib.import_module(name)
    except (ImportError, RuntimeError, OSError) as error:
        for part in [part for part in sys.modules if part == name or part.startswith(f"{name}.")]:
            del sys.modules[part]
        modules: dict[str, Any] = sys.modules
        modules[name] = None  # the import system takes this for a module that does not exist
        reason = str(error).splitlines()[0][:200]
        return f"Images are prepared by Pillow: {name} is installed, but does not fit torch ({reason})."
    return None
