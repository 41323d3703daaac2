"""Handles of runs and experiments: wait, refresh, pause, and read metrics, samples, comparisons and reports."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator
from typing import Any, ClassVar, Self
from uuid import UUID

from pydantic import ConfigDict, PrivateAttr

from vlmhyperbench.client import calls, steps
from vlmhyperbench.client.methods import DoLater, DoNow, RenewLater, RenewNow
from vlmhyperbench.client.progress import Progressing, show, watching
from vlmhyperbench.wire.base import Output
from vlmhyperbench.wire.live import DetailKind, Live, LiveProgress
from vlmhyperbench.wire.runs import ExperimentDetail, RunDetail


class _Bound(Output):
    """Base of handles: bound to the client that returned them; values are those of the last response."""

    _client: Any = PrivateAttr()

    @classmethod
    def bind(cls, client: Any, response: Output) -> Self:
        """Bind a response of the API to the client that received it."""
        handle = cls.model_validate(response, from_attributes=True)
        handle._client = client  # noqa: SLF001 - its own class
        return handle

    @property
    def client(self) -> Any:
        """The client that returned this handle."""
        return self._client


class _Run(RunDetail, _Bound):
    """A run, bound to a client."""

    model_config = ConfigDict(frozen=False)

    def take(self, newer: RunDetail) -> None:
        """Copy the values of a newer response; the last known progress is kept where it has none."""
        for name in RunDetail.model_fields:
            if name != "progress" or newer.progress is not None:
                setattr(self, name, getattr(newer, name))

    def keep(self, message: Live) -> None:
        """Keep the newest progress from the live feed."""
        if isinstance(message, LiveProgress):
            self.progress = message.progress


class RunHandle(_Run):
    """Handle of a run, for the blocking client."""

    refresh: ClassVar = RenewNow(calls.get_run)
    cancel: ClassVar = RenewNow(calls.cancel_run)
    pause: ClassVar = RenewNow(calls.pause_run)
    resume: ClassVar = RenewNow(calls.resume_run)
    retune: ClassVar = RenewNow(calls.retune_run)
    metrics: ClassVar = DoNow(steps.metrics)
    samples: ClassVar = DoNow(steps.samples)
    compare: ClassVar = DoNow(steps.compare)
    report: ClassVar = DoNow(steps.save_report)

    def live(self, *, details: Iterable[DetailKind] = (), timeout_s: float | None = None) -> Iterator[Live]:
        """Follow the run until it ends, with its newest `samples`, `resources` or `logs` if `details` names them."""
        messages: Iterator[Live] = self.client.live(
            [self.id], since={self.id: self.event_seq}, details=details, timeout_s=timeout_s
        )
        return messages

    def wait(self, *, progress: Progressing = False, timeout_s: float | None = None) -> Self:
        """Wait until the run has ended, in whatever state.

        Args:
            progress: Whether to show progress on stderr; or a function that is called with each progress.
            timeout_s: Maximum time to wait; the run itself continues.

        Raises:
            NotReady: the run has not ended after `timeout_s`.
            Unavailable: the live feed could not be reached again.
        """
        with watching(progress, {self.id: self.name}) as display:
            for message in self.live(timeout_s=timeout_s):
                show(message, display)
                self.keep(message)
        return self.refresh()


class AsyncRunHandle(_Run):
    """Handle of a run, for the asynchronous client."""

    refresh: ClassVar = RenewLater(calls.get_run)
    cancel: ClassVar = RenewLater(calls.cancel_run)
    pause: ClassVar = RenewLater(calls.pause_run)
    resume: ClassVar = RenewLater(calls.resume_run)
    retune: ClassVar = RenewLater(calls.retune_run)
    metrics: ClassVar = DoLater(steps.metrics)
    samples: ClassVar = DoLater(steps.samples)
    compare: ClassVar = DoLater(steps.compare)
    report: ClassVar = DoLater(steps.save_report)

    def live(self, *, details: Iterable[DetailKind] = (), timeout_s: float | None = None) -> AsyncIterator[Live]:
        """Follow the run until it ends, with its newest `samples`, `resources` or `logs` if `details` names them."""
        messages: AsyncIterator[Live] = self.client.live(
            [self.id], since={self.id: self.event_seq}, details=details, timeout_s=timeout_s
        )
        return messages

    async def wait(self, *, progress: Progressing = False, timeout_s: float | None = None) -> Self:
        """Wait until the run has ended, as `RunHandle.wait` does."""
        with watching(progress, {self.id: self.name}) as display:
            async for message in self.live(timeout_s=timeout_s):
                show(message, display)
                self.keep(message)
        return await self.refresh()


class _Experiment(ExperimentDetail, _Bound):
    """An experiment, bound to a client."""

    model_config = ConfigDict(frozen=False)

    @property
    def streams(self) -> dict[UUID | str, int]:
        """The streams of its live feed, each with the last known event."""
        return {self.id: self.event_seq, **{run.id: run.event_seq for run in self.runs}}

    @property
    def names(self) -> dict[UUID, str]:
        """The name of each stream."""
        return {self.id: self.name, **{run.id: run.name for run in self.runs}}

    def take(self, newer: ExperimentDetail) -> None:
        """Copy the values of a newer response."""
        for name in ExperimentDetail.model_fields:
            setattr(self, name, getattr(newer, name))


class ExperimentHandle(_Experiment):
    """Handle of an experiment, for the blocking client."""

    refresh: ClassVar = RenewNow(calls.get_experiment)
    cancel: ClassVar = RenewNow(calls.cancel_experiment)
    pause: ClassVar = RenewNow(calls.pause_experiment)
    resume: ClassVar = RenewNow(calls.resume_experiment)
    metrics: ClassVar = DoNow(steps.metrics)
    report: ClassVar = DoNow(steps.save_report)

    def live(self, *, timeout_s: float | None = None) -> Iterator[Live]:
        """Follow the experiment and its runs until they end."""
        messages: Iterator[Live] = self.client.live(self.streams, since=self.streams, timeout_s=timeout_s)
        return messages

    def wait(self, *, progress: Progressing = False, timeout_s: float | None = None) -> Self:
        """Wait until every run and the comparison have ended, as `RunHandle.wait` does."""
        with watching(progress, self.names) as display:
            for message in self.live(timeout_s=timeout_s):
                show(message, display)
        return self.refresh()


class AsyncExperimentHandle(_Experiment):
    """Handle of an experiment, for the asynchronous client."""

    refresh: ClassVar = RenewLater(calls.get_experiment)
    cancel: ClassVar = RenewLater(calls.cancel_experiment)
    pause: ClassVar = RenewLater(calls.pause_experiment)
    resume: ClassVar = RenewLater(calls.resume_experiment)
    metrics: ClassVar = DoLater(steps.metrics)
    report: ClassVar = DoLater(steps.save_report)

    def live(self, *, timeout_s: float | None = None) -> AsyncIterator[Live]:
        """Follow the experiment and its runs until they end."""
        messages: AsyncIterator[Live] = self.client.live(self.streams, since=self.streams, timeout_s=timeout_s)
        return messages

    async def wait(self, *, progress: Progressing = False, timeout_s: float | None = None) -> Self:
        """Wait until every run and the comparison have ended, as `RunHandle.wait` does."""
        with watching(progress, self.names) as display:
            async for message in self.live(timeout_s=timeout_s):
                show(message, display)
        return await self.refresh()
