"""The inference worker: takes jobs that ask a target, as many as fit, and keeps targets loaded between them."""

from __future__ import annotations

import asyncio
import os
from functools import partial

from vlmhyperbench.environments.docker_daemon import remove_orphaned_containers
from vlmhyperbench.environments.rented_end import return_forgotten
from vlmhyperbench.logs import get_logger
from vlmhyperbench.runtime import service
from vlmhyperbench.settings import Settings
from vlmhyperbench.worker.claims import WorkerContext
from vlmhyperbench.worker.devices import devices_of_worker, show_only
from vlmhyperbench.worker.ground import pin
from vlmhyperbench.worker.supervisor import run_worker
from vlmhyperbench_inference_worker.bench import Bench
from vlmhyperbench_inference_worker.evidence import EvidenceFolder
from vlmhyperbench_inference_worker.fleet import Fleet
from vlmhyperbench_inference_worker.generation import READERS, handle_generate
from vlmhyperbench_inference_worker.standby import Standby

_LOG = get_logger(__name__)


def main() -> None:
    """Take jobs that ask a target on this machine's devices until SIGTERM or SIGINT."""
    with service("inference-worker", main.__doc__) as settings:
        serve(settings)


def serve(settings: Settings) -> None:
    """Run the worker until a signal ends it.

    Raises:
        NotFound: the machine does not have a device that the settings name.
        Conflict: another worker holds one of the devices.
    """
    os.environ.setdefault("CUDA_DEVICE_ORDER", "PCI_BUS_ID")  # the engine counts GPUs as NVML does
    devices = devices_of_worker(settings)
    show_only(devices)  # before anything starts that is to see no other
    pin(settings.inference_cores)  # before anything starts that is to inherit it
    standby = Standby(settings.home / "work" / settings.worker_name)
    evidence = EvidenceFolder(settings.home / "evidence" / settings.worker_name)
    bench = Bench(devices=devices, fleet=Fleet(), standby=standby, evidence=evidence)

    async def start(context: WorkerContext) -> None:
        standby.refill()
        for name in await asyncio.to_thread(remove_orphaned_containers):
            _LOG.warning("worker.orphaned_container_removed", container=name)
        for name in await asyncio.to_thread(return_forgotten, settings.environments_dir):
            _LOG.warning("worker.rented_machine_returned", machine=name)
        await evidence.recover(context.runtime)

    async def stop(_: WorkerContext) -> None:
        await bench.close()

    handlers = dict.fromkeys(READERS, partial(handle_generate, bench=bench))
    asyncio.run(
        run_worker(
            settings,
            kind="inference",
            handlers=handlers,
            devices=bench.devices,
            slots=settings.inference_slots,
            on_start=start,
            on_stop=stop,
        )
    )


if __name__ == "__main__":
    main()
