"""Runs and experiments that can be asked themselves: waited for, read anew, scored, compared, paused."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any, ClassVar, Self
from uuid import UUID

from pydantic import ConfigDict, PrivateAttr

from vlmhyperbench.client import calls, steps
from vlmhyperbench.client.live import Live
from vlmhyperbench.client.methods import DoLater, DoNow, RenewLater, RenewNow
from vlmhyperbench.client.progress import Progressing, show, watching
from vlmhyperbench.wire.base import Output
from vlmhyperbench.wire.live import LiveProgress
from vlmhyperbench.wire.runs import ExperimentDetail, RunDetail


class _Bound(Output):
    """What is bound to the client that it came by; its values are those of the last look."""

    _client: Any = PrivateAttr()

    @classmethod
    def bind(cls, client: Any, found: Output) -> Self:
        """Bind what the API answered to the client that asked."""
        handle = cls.model_validate(found, from_attributes=True)
        handle._client = client  # noqa: SLF001 - its own class
        return handle

    @property
    def client(self) -> Any:
        """The client that it came by."""
        return self._client


class _Run(RunDetail, _Bound):
    """A run, bound to a client."""

    model_config = ConfigDict(frozen=False)

    def take(self, newer: RunDetail) -> None:
        """Take over the values of a newer look; the newest progress that is known stays."""
        for name in RunDetail.model_fields:
            if name != "progress" or newer.progress is not None:
                setattr(self, name, getattr(newer, name))

    def keep(self, message: Live) -> None:
        """Keep the newest progress that the live feed tells."""
        if isinstance(message, LiveProgress):
            self.progress = message.progress


class RunHandle(_Run):
    """A run, of the blocking client."""

    refresh: ClassVar = RenewNow(calls.get_run)
    cancel: ClassVar = RenewNow(calls.cancel_run)
    pause: ClassVar = RenewNow(calls.pause_run)
    resume: ClassVar = RenewNow(calls.resume_run)
    metrics: ClassVar = DoNow(steps.metrics)
    samples: ClassVar = DoNow(steps.samples)
    compare: ClassVar = DoNow(steps.compare)
    report: ClassVar = DoNow(steps.save_report)

    def live(self, *, timeout_s: float | None = None) -> Iterator[Live]:
        """Follow the run to its end."""
        return self.client.live([self.id], since={self.id: self.event_seq}, timeout_s=timeout_s)  # type: ignore[no-any-return]

    def wait(self, *, progress: Progressing = False, timeout_s: float | None = None) -> Self:
        """Wait until the run has ended, however it does.

        Args:
            progress: Whether to show on stderr how far it is; or a function that is told.
            timeout_s: How long to wait at most; the run goes on.

        Raises:
            NotReady: it has not ended after `timeout_s`.
            Unavailable: the live feed does not come back.
        """
        with watching(progress, {self.id: self.name}) as display:
            for message in self.live(timeout_s=timeout_s):
                show(message, display)
                self.keep(message)
        return self.refresh()


class AsyncRunHandle(_Run):
    """A run, of the asynchronous client."""

    refresh: ClassVar = RenewLater(calls.get_run)
    cancel: ClassVar = RenewLater(calls.cancel_run)
    pause: ClassVar = RenewLater(calls.pause_run)
    resume: ClassVar = RenewLater(calls.resume_run)
    metrics: ClassVar = DoLater(steps.metrics)
    samples: ClassVar = DoLater(steps.samples)
    compare: ClassVar = DoLater(steps.compare)
    report: ClassVar = DoLater(steps.save_report)

    def live(self, *, timeout_s: float | None = None) -> AsyncIterator[Live]:
        """Follow the run to its end."""
        return self.client.live([self.id], since={self.id: self.event_seq}, timeout_s=timeout_s)  # type: ignore[no-any-return]

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
        """What its live feed is made of, with the last event that is known of each."""
        return {self.id: self.event_seq, **{run.id: run.event_seq for run in self.runs}}

    @property
    def names(self) -> dict[UUID, str]:
        """What its streams are called."""
        return {self.id: self.name, **{run.id: run.name for run in self.runs}}

    def take(self, newer: ExperimentDetail) -> None:
        """Take over the values of a newer look."""
        for name in ExperimentDetail.model_fields:
            setattr(self, name, getattr(newer, name))


class ExperimentHandle(_Experiment):
    """An experiment, of the blocking client."""

    refresh: ClassVar = RenewNow(calls.get_experiment)
    cancel: ClassVar = RenewNow(calls.cancel_experiment)
    pause: ClassVar = RenewNow(calls.pause_experiment)
    resume: ClassVar = RenewNow(calls.resume_experiment)
    metrics: ClassVar = DoNow(steps.metrics)
    report: ClassVar = DoNow(steps.save_report)

    def live(self, *, timeout_s: float | None = None) -> Iterator[Live]:
        """Follow the experiment and its runs to their end."""
        return self.client.live(self.streams, since=self.streams, timeout_s=timeout_s)  # type: ignore[no-any-return]

    def wait(self, *, progress: Progressing = False, timeout_s: float | None = None) -> Self:
        """Wait until every run and their comparison have ended, as `RunHandle.wait` does."""
        with watching(progress, self.names) as display:
            for message in self.live(timeout_s=timeout_s):
                show(message, display)
        return self.refresh()


class AsyncExperimentHandle(_Experiment):
    """An experiment, of the asynchronous client."""

    refresh: ClassVar = RenewLater(calls.get_experiment)
    cancel: ClassVar = RenewLater(calls.cancel_experiment)
    pause: ClassVar = RenewLater(calls.pause_experiment)
    resume: ClassVar = RenewLater(calls.resume_experiment)
    metrics: ClassVar = DoLater(steps.metrics)
    report: ClassVar = DoLater(steps.save_report)

    def live(self, *, timeout_s: float | None = None) -> AsyncIterator[Live]:
        """Follow the experiment and its runs to their end."""
        return self.client.live(self.streams, since=self.streams, timeout_s=timeout_s)  # type: ignore[no-any-return]

    async def wait(self, *, progress: Progressing = False, timeout_s: float | None = None) -> Self:
        """Wait until every run and their comparison have ended, as `RunHandle.wait` does."""
        with watching(progress, self.names) as display:
            async for message in self.live(timeout_s=timeout_s):
                show(message, display)
        return await self.refresh()
