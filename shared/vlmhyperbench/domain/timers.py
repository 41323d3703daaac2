"""The timers of the protocol between scheduler, workers and API, and the inequalities that make it safe. Pure."""

from __future__ import annotations

from typing import Self

from pydantic import BaseModel, ConfigDict, Field, model_validator


class Timers(BaseModel):
    """The protocol's timers in seconds; a set that breaks an inequality is refused at start-up."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    heartbeat_s: float = Field(default=5.0, gt=0)
    """How often a worker renews its leases; ± 20 %."""
    lease_s: float = Field(default=30.0, gt=0)
    """How long a claim stays owned without renewal, by the database's clock."""
    self_fence_s: float = Field(default=20.0, gt=0)
    """Time without a renewal after which a worker kills its own claim runner, by its monotonic clock."""
    statement_timeout_s: float = Field(default=5.0, gt=0)
    kill_s: float = Field(default=3.0, gt=0)
    """How long killing a claim runner may take."""
    reap_grace_s: float = Field(default=5.0, ge=0)
    """Time between the expiry of a lease and its reaping."""
    hold_s: float = Field(default=120.0, ge=0)
    """Time after which a job that has no room on any worker holds one, which then gets no other jobs."""
    unfit_s: float = Field(default=30.0, ge=0)
    """Time after which a job that fits no known device fails, counted again whenever a worker registers: a larger one
    may still come."""
    unclaimed_s: float = Field(default=15.0, gt=0)
    """Time after which an assignment that no worker has claimed returns to READY."""
    poll_s: float = Field(default=5.0, gt=0)
    """How often a worker polls for its assignments, notified or not."""
    tick_s: float = Field(default=1.0, gt=0)
    """How often the scheduler runs, notified or not."""
    no_reap_s: float = Field(default=30.0, ge=0)
    """Time without reaping after gaining leadership, or after the database was unavailable."""
    stall_s: float = Field(default=900.0, gt=0)
    """Stall limit: time without a committed sample after which a job has stalled, not counting the loading of its
    model. Longer where its requests' own limits (timeout, retries, think time, gaps between arrivals) allow more."""
    compute_s: float = Field(default=21_600.0, gt=0)
    """Time after which a computation in a child process (a dataset, one metric of a run, a report) has stalled."""
    metric_s: float = Field(default=900.0, gt=0)
    """Time after which a metric in an environment of its own hangs: to be opened, or to measure 500 answers."""
    cancel_term_s: float = Field(default=10.0, gt=0)
    """Time between SIGTERM and SIGKILL when a job is cancelled."""
    drain_s: float = Field(default=30.0, gt=0)
    """How long a stopping worker may take to finish its chunk."""
    request_s: float = Field(default=20.0, gt=0)
    """How long a client of the API may take to send a request's head, and again to send its body, which gets one more
    second per 64 KiB."""
    stale_worker_s: float = Field(default=30.0, gt=0)
    """Time without a heartbeat after which a worker is stale."""
    forget_worker_s: float = Field(default=3600.0, gt=0)
    """Time without a heartbeat after which a worker counts as gone; if it comes back, it starts again."""

    @model_validator(mode="after")
    def _check_inequalities(self) -> Self:
        fenced = self.self_fence_s + self.statement_timeout_s + self.kill_s
        rules = {
            f"self_fence_s + statement_timeout_s + kill_s ({fenced:g}) < lease_s ({self.lease_s:g})": (
                fenced < self.lease_s
            ),
            f"1.2 heartbeat_s ({1.2 * self.heartbeat_s:g}) < self_fence_s ({self.self_fence_s:g})": (
                1.2 * self.heartbeat_s < self.self_fence_s
            ),
            f"1.2 heartbeat_s ({1.2 * self.heartbeat_s:g}) < stale_worker_s ({self.stale_worker_s:g})": (
                1.2 * self.heartbeat_s < self.stale_worker_s
            ),
            f"stale_worker_s ({self.stale_worker_s:g}) <= forget_worker_s ({self.forget_worker_s:g})": (
                self.stale_worker_s <= self.forget_worker_s
            ),
            f"poll_s ({self.poll_s:g}) < unclaimed_s ({self.unclaimed_s:g})": self.poll_s < self.unclaimed_s,
            f"tick_s ({self.tick_s:g}) < unclaimed_s ({self.unclaimed_s:g})": self.tick_s < self.unclaimed_s,
        }
        broken = [rule for rule, holds in rules.items() if not holds]
        if broken:
            raise ValueError(f"These must hold: {'; '.join(broken)}")
        return self
