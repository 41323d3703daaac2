"""Start the compiled `sglang-bench` that the wheel of sglang contains, without importing the rest of the wheel."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

[path] = Path(sys.prefix).glob("lib/python*/site-packages/sglang/srt/rust_extensions/_bench*.so")
spec = importlib.util.spec_from_file_location("_bench", path)
assert spec is not None
assert spec.loader is not None
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
status = module.run_argv(["sglang-bench", *sys.argv[1:]])
sys.exit(status if isinstance(status, int) else 0)
