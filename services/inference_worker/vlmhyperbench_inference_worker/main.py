"""The inference worker: takes jobs that ask a target, as many as fit, and keeps targets loaded between them.

What does the jobs is imported while the worker waits for its first one.
"""

from __future__ import annotations

import asyncio
import os
from typing import Protocol

from vlmhyperbench.domain.outcomes import Outcome
from vlmhyperbench.domain.steps import STEPS
from vlmhyperbench.environments.docker_daemon import remove_orphaned_containers
from vlmhyperbench.environments.rented_end import return_forgotten
from vlmhyperbench.logs import get_logger
from vlmhyperbench.runtime import service
from vlmhyperbench.settings import Settings
from vlmhyperbench.worker.claims import ClaimedJob, WorkerContext
from vlmhyperbench.worker.devices import devices_of_worker, show_only
from vlmhyperbench.worker.ground import pin
from vlmhyperbench.worker.supervisor import run_worker
from vlmhyperbench_inference_worker.bench import Bench
from vlmhyperbench_inference_worker.evidence import EvidenceFolder
from vlmhyperbench_inference_worker.fleet import Fleet
from vlmhyperbench_inference_worker.standby import Standby

_LOG = get_logger(__name__)


class GenerateHandler(Protocol):
    """Does a job that asks a target."""

    async def __call__(self, job: ClaimedJob, *, bench: Bench) -> Outcome: ...


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

    holding: list[asyncio.Task[None]] = []

    async def start(context: WorkerContext) -> None:
        asyncio.get_running_loop().run_in_executor(None, _import_handler)  # the first job awaits it
        standby.refill()
        for name in await asyncio.to_thread(remove_orphaned_containers):
            _LOG.warning("worker.orphaned_container_removed", container=name)
        for name in await asyncio.to_thread(return_forgotten, settings.environments_dir):
            _LOG.warning("worker.rented_machine_returned", machine=name)
        await evidence.recover(context.runtime)
        holding.append(asyncio.create_task(_hold(context, bench), name="hold models"))

    async def stop(_: WorkerContext) -> None:
        for task in holding:
            task.cancel()
        await asyncio.gather(*holding, return_exceptions=True)
        await bench.close()

    async def handle(job: ClaimedJob) -> Outcome:
        handle_generate = await asyncio.to_thread(_import_handler)
        return await handle_generate(job, bench=bench)

    kinds = [kind for kind, step in STEPS.items() if step.worker == "inference"]
    asyncio.run(
        run_worker(
            settings,
            kind="inference",
            handlers=dict.fromkeys(kinds, handle),
            devices=bench.devices,
            slots=settings.inference_slots,
            on_start=start,
            on_stop=stop,
        )
    )


async def _hold(context: WorkerContext, bench: Bench) -> None:
    await asyncio.to_thread(_import_handler)  # what loads models is imported with it
    from vlmhyperbench_inference_worker.holding import hold_models

    try:
        await hold_models(context, bench)
    except Exception:
        _LOG.exception("held.ended")  # nobody awaits this task; jobs go on without it
        raise


def _import_handler() -> GenerateHandler:
    from vlmhyperbench_inference_worker.generation import handle_generate

    return handle_generate


if __name__ == "__main__":
    main()
