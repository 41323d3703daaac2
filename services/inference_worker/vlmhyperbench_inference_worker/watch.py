"""Samples of CPU, memory, GPU and the engine's own memory, ten times a second; none of an engine on a rented machine.

Samples have the monotonic clock of this machine, so that they join with the load generator's instants. Each is written
to a file as it is taken, of which the claim makes an artifact (`evidence`); the report shows the `ResourceSummary` of
the measured window, and each request has its `RequestMemory`.
"""

from __future__ import annotations

import asyncio
import time
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import IO, Self

import psutil

from vlmhyperbench.domain.units import NS_PER_S
from vlmhyperbench.logs import get_logger
from vlmhyperbench.wire.live import Resources
from vlmhyperbench.worker import nvml
from vlmhyperbench.worker.devices import DeviceInfo
from vlmhyperbench_inference_worker.known import max_known, min_known
from vlmhyperbench_inference_worker.samples import DeviceSample, open_samples, write_sample

INTERVAL_S = 0.1
MIN_POWER_SHARE = 0.8
"""Energy is stated if at least this share of the expected samples of a window exists and has the power."""
TREE_REFRESH_S = 1.0
"""How often the engine's process tree is read anew; in between, the known processes are sampled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceSummary:
    """Peaks and means over a window; None if nothing was sampled, or the machine does not measure it."""

    samples: int
    coverage: float
    """Share of the window's expected samples that exist."""
    cpu_util_percent_mean: float | None
    memory_used_bytes_peak: int | None
    engine_rss_bytes_peak: int | None
    accelerator_memory_used_bytes_peak: int | None
    accelerator_util_percent_mean: float | None
    power_accelerator_w_mean: float | None
    energy_accelerator_j: float | None
    """Of all accelerators: the trapezoid of their sampled power, the first and the last held to the window's ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestMemory:
    """Memory of the accelerators around one request; of all requests in flight, where there are several."""

    before_bytes: int | None = None
    """In the last sample before it was sent."""
    peak_bytes: int | None = None


UNKNOWN_MEMORY = RequestMemory()


class Watch:
    """Samples from `async with` to its end; `engine_pid` is set once the engine runs."""

    def __init__(
        self,
        devices: Sequence[DeviceInfo],
        *,
        interval_s: float = INTERVAL_S,
        file: Path | None = None,
        is_elsewhere: bool = False,
    ) -> None:
        """Create a watch.

        Args:
            devices: Accelerators of this worker.
            interval_s: Time between two samples.
            file: Where each sample is written at once.
            is_elsewhere: The engine runs on a rented machine: nothing is sampled, because this one says nothing of it.
        """
        self._is_elsewhere = is_elsewhere
        self.engine_pid: int | None = None
        self._path = file
        self._file: IO[bytes] | None = None
        self._strangers_since_ns: float = float("inf")
        """Since when other processes use the accelerators, as far as NVML says it."""
        self._gpus = [device.uuid for device in devices if device.kind == "gpu" and not device.is_declared]
        self._interval_s = interval_s
        self._samples: list[DeviceSample] = []
        """Only the sampler appends, one whole sample at a time, so another thread may copy the list at any instant."""
        self._tree: list[psutil.Process] = []
        self._tree_until = 0.0
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        if self._is_elsewhere:
            return self
        psutil.cpu_percent()  # the first call only sets the reference for the next
        if self._path is not None:
            self._file = open_samples(self._path)
        self._task = asyncio.create_task(self._run(), name="watch")
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self._file is not None:
            self._file.close()

    def take_sample(self) -> None:
        """Take a sample now, as of an engine that has just become ready."""
        if not self._is_elsewhere:
            self._sample()

    def latest(self) -> Resources | None:
        """Return the newest sample, for the live view; None before the first."""
        if not self._samples:
            return None
        newest = asdict(self._samples[-1])
        return Resources(**{name: newest[name] for name in Resources.model_fields})

    def memory_between(self, start_ns: int, end_ns: int) -> RequestMemory:
        """Return the accelerators' memory before and during a request between two monotonic instants.

        It is unknown without accelerators, and while processes that are not the engine's use them: their memory cannot
        be divided. May be called in a thread while the sampler runs.
        """
        samples = self._samples
        first = max(bisect_right(samples, start_ns, key=_instant) - 1, 0)
        during = samples[first : bisect_right(samples, end_ns, key=_instant)]
        used = [sample.accelerator_memory_used_bytes for sample in during]
        known = [value for value in used if value is not None]
        if not known or len(known) < len(used) or self._strangers_since_ns <= end_ns:
            return UNKNOWN_MEMORY
        return RequestMemory(before_bytes=known[0], peak_bytes=max(known))

    def min_accelerator_memory(self, since_ns: int) -> int | None:
        """Return the smallest memory use of the accelerators since an instant, such as that before a load."""
        recent = [sample for sample in self._samples if sample.monotonic_ns >= since_ns]
        return min_known(sample.accelerator_memory_used_bytes for sample in recent)

    def max_accelerator_memory(self) -> int | None:
        """Return the largest memory use of the accelerators; None if other processes used them meanwhile."""
        if self._strangers_since_ns != float("inf"):
            return None
        return max_known(sample.accelerator_memory_used_bytes for sample in self._samples)

    def max_engine_rss(self) -> int | None:
        """Return the largest memory of the engine's processes."""
        return max_known(sample.engine_rss_bytes for sample in self._samples)

    def summary(self, start_ns: int, end_ns: int) -> ResourceSummary | None:
        """Summarise the samples between two monotonic instants, both inclusive; None if the engine runs elsewhere."""
        if self._is_elsewhere:
            return None
        rows = [sample for sample in self._samples if start_ns <= sample.monotonic_ns <= end_ns]
        expected = max(1.0, (end_ns - start_ns) / NS_PER_S / self._interval_s)
        known = [(row.monotonic_ns, row.power_accelerator_w) for row in rows if row.power_accelerator_w is not None]
        is_known = len(known) >= MIN_POWER_SHARE * expected - 1
        return ResourceSummary(
            samples=len(rows),
            coverage=min(1.0, len(rows) / expected),
            cpu_util_percent_mean=_mean([row.cpu_util_percent for row in rows]),
            memory_used_bytes_peak=max_known(row.memory_used_bytes for row in rows),
            engine_rss_bytes_peak=max_known(row.engine_rss_bytes for row in rows),
            accelerator_memory_used_bytes_peak=max_known(row.accelerator_memory_used_bytes for row in rows),
            accelerator_util_percent_mean=_mean([row.accelerator_util_percent for row in rows]),
            power_accelerator_w_mean=_mean([watts for _, watts in known]),
            energy_accelerator_j=_energy_j(known, start_ns, end_ns) if is_known else None,
        )

    async def _run(self) -> None:
        due = time.monotonic()
        while True:
            self._sample()
            due = max(due + self._interval_s, time.monotonic())
            await asyncio.sleep(max(0.0, due - time.monotonic()))

    def _sample(self) -> None:
        reading = nvml.read(self._gpus) if self._gpus else None
        sample = DeviceSample(
            monotonic_ns=time.monotonic_ns(),
            wall_ns=time.time_ns(),
            cpu_util_percent=psutil.cpu_percent(),
            memory_used_bytes=int(psutil.virtual_memory().used),
            engine_rss_bytes=self._engine_rss_bytes(),
            accelerator_memory_used_bytes=reading.memory_used_bytes if reading else None,
            accelerator_util_percent=reading.util_percent if reading else None,
            power_accelerator_w=reading.power_w if reading else None,
            temperature_accelerator_c=reading.temperature_c if reading else None,
        )
        self._samples.append(sample)
        self._keep(sample)

    def _keep(self, sample: DeviceSample) -> None:
        if self._file is None:
            return
        try:
            write_sample(self._file, sample)
        except OSError as error:  # a full disk ends the run elsewhere; the samples go on in memory
            get_logger(__name__).warning("samples.not_written", reason=str(error))
            self._file.close()
            self._file = None

    def _engine_rss_bytes(self) -> int | None:
        if self.engine_pid is None:
            return None
        try:
            if time.monotonic() >= self._tree_until:
                root = psutil.Process(self.engine_pid)
                self._tree = [root, *root.children(recursive=True)]
                self._tree_until = time.monotonic() + TREE_REFRESH_S
                if self._gpus:
                    self._find_strangers({process.pid for process in self._tree})
            return sum(process.memory_info().rss for process in self._tree)
        except psutil.NoSuchProcess:
            self._tree_until = 0.0
            return None

    def _find_strangers(self, own: set[int]) -> None:
        """Note whether other processes than the engine's use the accelerators.

        In a container, NVML may name processes by other ids than the system: then none of them is the engine's, and
        nothing can be said.
        """
        users = nvml.processes(self._gpus)
        if not users & own or users <= own:
            self._strangers_since_ns = float("inf")
        else:
            self._strangers_since_ns = min(self._strangers_since_ns, time.monotonic_ns())


def _instant(sample: DeviceSample) -> int:
    return sample.monotonic_ns


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _energy_j(points: Sequence[tuple[int, float]], start_ns: int, end_ns: int) -> float | None:
    if len(points) < 2:
        return None
    # Samples rarely fall on the ends of the window, so the first and the last value are held up to them.
    whole = [(start_ns, points[0][1]), *points, (end_ns, points[-1][1])]
    return sum((second[0] - first[0]) / NS_PER_S * (first[1] + second[1]) / 2 for first, second in pairwise(whole))
