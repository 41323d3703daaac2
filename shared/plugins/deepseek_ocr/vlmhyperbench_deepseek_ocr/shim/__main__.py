"""Start vLLM's OpenAI server so that it finds the processor beside this file; started by path with vLLM's interpreter.

It needs vLLM and the standard library only. vLLM's worker processes are spawned with the search path of this one.
"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

SERVER = "vllm.entrypoints.openai.api_server"


def main() -> None:
    """Serve with the arguments of this process."""
    sys.path.append(str(Path(__file__).parent))
    runpy.run_module(SERVER, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
