"""`python -m tests.shared.cli.limited_serving BYTES [--allow-lossy]`: serve p as if so many bytes were usable."""

from __future__ import annotations

import asyncio
import secrets
import sys

from vlmhyperbench.cli import exits
from vlmhyperbench.cli.output import print_error
from vlmhyperbench.cli.output_flags import OutputFlags
from vlmhyperbench.cli.pipeline_serving import serve_until_signalled
from vlmhyperbench.cli.registry import open_catalogue
from vlmhyperbench.cli.served_models import Starting
from vlmhyperbench.domain.fallbacks import GIB
from vlmhyperbench.errors import VlmHyperBenchError
from vlmhyperbench.registry.plugins import InstalledPlugins
from vlmhyperbench.registry.served_pipelines import pin_served
from vlmhyperbench.settings import Settings
from vlmhyperbench.worker.gateway import GatewayOptions
from vlmhyperbench_sdk.free_memory import FreeMemory


def main(usable: int, *, allow_lossy: bool) -> int:
    """Serve until SIGTERM."""
    settings = Settings.load()
    pinned = pin_served(open_catalogue(), InstalledPlugins(), "p", allow_lossy=allow_lossy)
    options = GatewayOptions(environment=settings.engine_environment, log=settings.logs_dir / "serve-pipeline.log")
    starting = Starting(
        settings=settings,
        key=secrets.token_urlsafe(32),
        load_timeout_s=300,
        output=OutputFlags(json=True),
        allow_lossy=allow_lossy,
        measure=lambda: FreeMemory(host_bytes=usable + GIB, device_bytes=None),  # 1 GiB is left to others
    )
    try:
        return asyncio.run(serve_until_signalled(pinned, starting, options, None))
    except VlmHyperBenchError as error:
        print_error(error, as_json=True)
        return exits.code_of(error)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), allow_lossy="--allow-lossy" in sys.argv))
