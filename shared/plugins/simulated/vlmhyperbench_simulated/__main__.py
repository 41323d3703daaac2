"""`python -m vlmhyperbench_simulated`: serve a simulated engine until SIGTERM; the first line on stdout is the port."""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import signal
import sys

from vlmhyperbench_sdk.errors import InvalidInput
from vlmhyperbench_simulated.server import start_server
from vlmhyperbench_simulated.simulation import Simulation
from vlmhyperbench_simulated.streams import parse_simulation

KEY_VARIABLE = "SIMULATED_API_KEY"
"""Environment variable with the API key that clients must send; unset: no key is required."""


def main() -> int:
    """Serve; return 2 for wrong parameters, 3 if the port is taken or a crash is declared."""
    parser = argparse.ArgumentParser(prog="python -m vlmhyperbench_simulated", description=__doc__)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--unix-socket")
    parser.add_argument("--params", default="{}", help="the simulation as JSON, see simulation.py and streams.py")
    parser.add_argument("--realtime", action="store_true", help="ask for real-time scheduling")
    args = parser.parse_args()
    try:
        params = json.loads(args.params)
        if not isinstance(params, dict):
            raise InvalidInput("--params must be a JSON object.")
        simulation = parse_simulation(params)
    except (ValueError, InvalidInput) as error:
        print(error, file=sys.stderr)
        return 2
    if simulation.crash_at_start:
        print("The simulated engine crashes at start, as declared.", file=sys.stderr)
        return 3
    try:
        asyncio.run(_serve(simulation, args.host, args.port, args.unix_socket, is_realtime=args.realtime))
    except OSError as error:
        print(f"Cannot listen: {error}", file=sys.stderr)
        return 3
    return 0


async def _serve(simulation: Simulation, host: str, port: int, unix_socket: str | None, *, is_realtime: bool) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    key = os.environ.get(KEY_VARIABLE)
    server = await start_server(simulation, host=host, port=port, unix_socket=unix_socket, api_key=key)
    realtime = is_realtime and _use_realtime_scheduling()
    # The server makes no reference cycles, and a pause of the garbage collector would make tokens late.
    gc.collect()
    gc.freeze()
    gc.disable()
    async with server:
        print(json.dumps({"event": "listening", "port": server.port, "realtime": realtime}), flush=True)
        await stop.wait()


def _use_realtime_scheduling() -> bool:
    """Ask for real-time scheduling; return whether the system grants it."""
    if not hasattr(os, "sched_setscheduler"):
        return False
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    except PermissionError:
        return False
    return True


if __name__ == "__main__":
    sys.exit(main())
