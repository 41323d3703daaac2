"""What needs torch is tested where torch is installed: `training/README.md` says how."""

from __future__ import annotations

from importlib.util import find_spec

collect_ignore = [] if all(map(find_spec, ("torch", "transformers", "gguf"))) else ["test_training_network.py"]
