"""What an inference worker keeps from one job to the next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vlmhyperbench.domain.ground import Ground
from vlmhyperbench.worker.devices import DeviceInfo
from vlmhyperbench.worker.ground import ground
from vlmhyperbench_inference_worker.evidence import EvidenceFolder
from vlmhyperbench_inference_worker.fleet import Fleet
from vlmhyperbench_inference_worker.standby import Standby


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """All devices of the worker, their targets, a load generator on standby, and the evidence of claims."""

    devices: Sequence[DeviceInfo]
    fleet: Fleet
    standby: Standby
    evidence: EvidenceFolder

    @property
    def ground(self) -> Ground:
        """The part of the machine on which this worker, its children and the loaded engines run."""
        return ground(self.devices, pids=self.fleet.engine_pids)

    async def close(self) -> None:
        """Unload the targets, and end the load generator on standby."""
        await self.fleet.close()
        await self.standby.close()
