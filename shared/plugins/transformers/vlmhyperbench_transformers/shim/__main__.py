"""Serve one Hugging Face model; started by path with the interpreter of the engine's environment.

It needs torch, transformers, pillow and the standard library, and llguidance for answers in a format. Nothing is
fetched, nothing is cached between requests. SIGTERM ends it.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import signal
import sys
import traceback
from pathlib import Path

PACKAGE = "vlmhyperbench_transformers"


def find_package() -> None:
    """Make this package importable without its neighbours: its folder may hold the platform's."""
    if PACKAGE not in sys.modules:
        folder = Path(__file__).resolve().parents[1]
        spec = importlib.util.spec_from_file_location(
            PACKAGE, folder / "__init__.py", submodule_search_locations=[str(folder)]
        )
        if spec is None or spec.loader is None:
            raise ImportError(PACKAGE)
        module = importlib.util.module_from_spec(spec)
        sys.modules[PACKAGE] = module
        spec.loader.exec_module(module)


def main(arguments: list[str]) -> int:
    """Load the model, serve and wait for the signal; exit with 1 if the model cannot be loaded."""
    from vlmhyperbench_transformers.shim.vision import hide_unusable

    warning = hide_unusable()  # before transformers looks for it

    from vlmhyperbench_transformers.shim.loading import CannotLoad, load
    from vlmhyperbench_transformers.shim.options import read_options
    from vlmhyperbench_transformers.shim.refusal import says_out_of_memory

    options = read_options(arguments)
    try:
        loaded = load(options)
    except Exception as error:  # noqa: BLE001 -- a model's own code, and the readers of its files, raise anything
        expected = (CannotLoad, OSError, ValueError, ImportError, RuntimeError)
        if not isinstance(error, expected) and type(error).__name__ != "SafetensorError":
            traceback.print_exc()
        reason = " ".join(str(error).split())[:1000] or type(error).__name__
        if says_out_of_memory(error):
            reason = f"out of memory: {reason}"
        print(f"transformers cannot load {options.folder}: {reason}", file=sys.stderr, flush=True)
        return 1

    async def run() -> None:
        from vlmhyperbench_transformers.shim.http import serve
        from vlmhyperbench_transformers.shim.server import Server

        stop = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        server = Server(loaded, options, warnings=[warning] if warning else [])
        await serve(server.handle, host=options.host, port=options.port)
        print(json.dumps({"event": "listening", "url": f"http://{options.host}:{options.port}"}), flush=True)
        await stop.wait()
        sys.stdout.flush()
        os._exit(0)  # the engine's thread may be in a forward pass, which nothing interrupts

    asyncio.run(run())
    return 0


if __name__ == "__main__":
    find_package()
    sys.exit(main(sys.argv[1:]))
