"""`python -m vlmhyperbench.serving PLAN --port N`: serve a pipeline until SIGTERM, behind a gateway."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from pathlib import Path

import uvicorn

from vlmhyperbench.serving.app import ServedApp
from vlmhyperbench.serving.plan import KEY_VARIABLE, ServingPlan
from vlmhyperbench.serving.switching import ModelSwitch
from vlmhyperbench.serving.upstreams import Upstreams
from vlmhyperbench_sdk.errors import VlmHyperBenchError


def main() -> int:
    """Serve; return 2 if the pipeline cannot be opened."""
    parser = argparse.ArgumentParser(prog="python -m vlmhyperbench.serving", description=__doc__)
    parser.add_argument("plan", type=Path)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, required=True)
    args = parser.parse_args()
    try:
        plan = ServingPlan.model_validate_json(args.plan.read_bytes())
        asyncio.run(_serve(plan, args.host, args.port, key=os.environ.pop(KEY_VARIABLE, "")))
    except VlmHyperBenchError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


async def _serve(plan: ServingPlan, host: str, port: int, *, key: str) -> None:
    upstreams, switch = Upstreams(key), ModelSwitch(key, plan.models)
    app = ServedApp(plan, upstreams, switch)
    config = uvicorn.Config(
        app,
        host=host,
        port=port,
        lifespan="off",
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=2,
    )
    try:
        await uvicorn.Server(config).serve()
    finally:
        await upstreams.close()
        await switch.close()


if __name__ == "__main__":
    sys.exit(main())
