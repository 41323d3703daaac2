"""What an inference worker keeps from one job to the next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vlmhyperbench.domain.ground import Ground
from vlmhyperbench.worker.devices import DeviceInfo
from vlmhyperbench.worker.ground import ground
from vlmhyperbench_inference_worker.fleet import Fleet
from vlmhyperbench_inference_worker.standby import Standby
from vlmhyperbench_sdk.gateway import EngineIdentity


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """All devices of the worker, the target that they hold, and a load generator on standby."""

    devices: Sequence[DeviceInfo]
    fleet: Fleet
    standby: Standby

    def ground(self, engine: EngineIdentity | None) -> Ground:
        """Say what of the machine this worker, its children and an engine run on."""
        return ground(self.devices, pids=[engine.pid] if engine and engine.pid is not None else [])

    async def close(self) -> None:
        """Unload the target, and end what is on standby."""
        await self.fleet.discard()
        await self.standby.close()
