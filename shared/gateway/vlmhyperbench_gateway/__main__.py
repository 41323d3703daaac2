"""`python -m vlmhyperbench_gateway`: listen on loopback; the first line on stdout is the port."""

from __future__ import annotations

import argparse
import json
import os
import socket
import sys
from pathlib import Path

from vlmhyperbench_sdk.errors import InvalidInput
from vlmhyperbench_sdk.gateway import EngineEnvironment

KEY_VARIABLE = "VLMHB_GATEWAY_KEY"


def main() -> int:
    """Serve until SIGTERM; exit 2 for wrong arguments, 3 if the port is in use."""
    args = _parse()
    key = os.environ.pop(KEY_VARIABLE, "")
    if len(key) < 16:
        print(f"The gateway needs a key of at least 16 characters in {KEY_VARIABLE}.", file=sys.stderr)
        return 2
    try:
        environment = EngineEnvironment.take(os.environ)
    except InvalidInput as error:
        print(error, file=sys.stderr)
        return 2
    try:
        listening = socket.create_server((args.host, args.port), backlog=2048)
    except OSError as error:
        print(f"The gateway cannot listen on {args.host}:{args.port}: {error}.", file=sys.stderr)
        return 3
    # Accepted sockets inherit it. Without it, a first token waits 40 ms for the client's delayed acknowledgement.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    _serve(args, key, environment, listening)
    return 0


def _serve(args: argparse.Namespace, key: str, environment: EngineEnvironment, listening: socket.socket) -> None:
    import uvicorn  # the arguments are checked first

    from vlmhyperbench.logs import configure_logging, hide
    from vlmhyperbench.logs.clients import quiet_client_errors, raise_open_files
    from vlmhyperbench_gateway.app import make_app
    from vlmhyperbench_gateway.connections import BoundedHeads
    from vlmhyperbench_gateway.settings import GatewaySettings
    from vlmhyperbench_sdk.net import UrlPolicy

    settings = GatewaySettings(
        key=key,
        environment=environment,
        data_root=args.data_root,
        url_policy=UrlPolicy(allow_loopback=args.allow_loopback, allow_hosts=frozenset(args.allow_host)),
        engine_log=args.engine_log,
        max_in_flight=args.max_in_flight,
    )
    hide([key])
    quiet_client_errors()
    raise_open_files()

    class Server(uvicorn.Server):
        """Prints where it listens, once it listens."""

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            line = {"event": "listening", "port": listening.getsockname()[1], "pid": os.getpid()}
            print(json.dumps(line), flush=True)
            configure_logging("gateway")

    config = uvicorn.Config(
        make_app(settings),
        http=BoundedHeads,
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=2,
    )
    Server(config).run(sockets=[listening])


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m vlmhyperbench_gateway", description=__doc__)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="0: a port of the system's choice")
    parser.add_argument("--allow-loopback", action="store_true", help="endpoints on this machine are allowed")
    parser.add_argument("--allow-host", action="append", default=[], metavar="HOST", help="a private host is allowed")
    parser.add_argument("--data-root", type=Path, help="images may be named as files below it")
    parser.add_argument("--engine-log", type=Path, help="keep the first and last part of the engine's output here")
    parser.add_argument("--max-in-flight", type=int, default=512, help="further requests are answered 429")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
