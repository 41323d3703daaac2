"""A state machine that drives one job on a model and on real SQL together: both must agree after every step.

It holds stale attempts and lost claims on purpose, and tries to use them again and again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any, ClassVar
from uuid import UUID

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests.shared.domain.builders_of_jobs import run_spec
from tests.support.engine_room import EngineRoom, Held
from vlmhyperbench.db import scheduling
from vlmhyperbench.db.engine import Database
from vlmhyperbench.domain.outcomes import Cancelled, Complete, Failed, Outcome, Preempted
from vlmhyperbench.domain.retrying import is_given_up
from vlmhyperbench.domain.states import JOB_TABLE, JobEvent, JobState

SAMPLES = 3
OUTCOMES: list[Outcome | Cancelled] = [
    Complete(),
    Preempted(),
    Failed(code="crash", message="gone"),
    Failed(code="bad", message="bad", permanent=True),
    Cancelled(),
]


@dataclass
class Model:
    """The expected state of one job."""

    state: JobState = JobState.READY
    attempt: UUID | None = None
    worker: UUID | None = None
    claim: UUID | None = None
    fails: int = 0
    rows: set[int] = field(default_factory=set)
    is_cancelled: bool = False
    is_failing: bool = False
    is_ended: bool = False

    @property
    def is_closing(self) -> bool:
        return self.is_cancelled or self.is_failing or self.is_ended

    def happens(self, event: JobEvent) -> None:
        following = JOB_TABLE.get((self.state, event))
        assert following is not None
        self.state = following
        if following is JobState.READY:
            self.attempt = self.worker = self.claim = None

    def fail(self, *, is_permanent: bool = False) -> None:
        if self.is_closing:
            return self.happens(JobEvent.CANCEL)
        self.fails += 1
        has_ended = is_given_up(fails=self.fails, done=len(self.rows), is_permanent=is_permanent)
        return self.happens(JobEvent.FAIL if has_ended else JobEvent.CRASH)


class JobMachine(RuleBasedStateMachine):
    """The rules are actions of workers, schedulers and users, at valid and invalid moments."""

    url: ClassVar[str]

    @initialize()
    def begin(self) -> None:
        self.runner = asyncio.Runner()
        self.database = Database(self.url, pool_size=1, max_overflow=0)
        self.room = EngineRoom(self.database)
        self.model = Model()
        run, [shard] = self.do(self.room.shards(run_spec(metrics=(), reports=()), samples=SAMPLES))
        self.run_id, self.job_id = run.id, shard.id
        self.workers = [self.do(self.room.add_worker(devices=1)) for _ in range(2)]
        self.attempts: list[tuple[UUID, UUID]] = []
        self.claims: list[Held] = []
        self.chunks = 0

    def do(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self.runner.run(work)

    def teardown(self) -> None:
        if hasattr(self, "runner"):
            self.do(self.database.close())
            self.runner.close()

    @precondition(lambda self: self.model.state is JobState.READY and not self.model.is_closing)
    @rule(which=st.integers(0, 1))
    def take(self, which: int) -> None:
        self.assign(which=which)
        self._claim(*self.attempts[-1])

    @precondition(lambda self: self.model.state is JobState.RUNNING and not self.model.is_closing)
    @rule()
    def taken_by_another_after_a_silence(self) -> None:
        self.lease_runs_out()
        if self.model.state is JobState.READY:
            self.take(which=1)

    @precondition(lambda self: len(self.claims) > 1 and self.model.state is JobState.RUNNING)
    @rule(outcome=st.sampled_from(OUTCOMES))
    def the_loser_of_a_claim_writes(self, outcome: Outcome | Cancelled) -> None:
        lost = next(held for held in reversed(self.claims) if held.claim_id != self.model.claim)
        assert self.do(self.room.renew(lost)) is None
        assert self.do(self.room.append(lost, [0, 1, 2], no=99)) is None
        assert self.do(self.room.finish(lost, outcome)) is None

    @rule(which=st.integers(0, 1))
    def assign(self, which: int) -> None:
        worker = self.workers[which]
        attempt = self.do(self.room.assign(self.job_id, worker, device=0))
        can = self.model.state is JobState.READY and not self.model.is_closing
        assert (attempt is not None) == can
        if can:
            self.model.happens(JobEvent.ASSIGN)
            self.model.attempt, self.model.worker = attempt, worker
            self.attempts.append((attempt, worker))

    @precondition(lambda self: self.attempts)
    @rule(pick=st.randoms(use_true_random=False), is_foreign=st.booleans())
    def claim(self, pick: Any, is_foreign: bool) -> None:
        attempt, worker = pick.choice(self.attempts[-3:])
        if is_foreign:
            worker = next(other for other in self.workers if other != worker)
        self._claim(attempt, worker)

    def _claim(self, attempt: UUID, worker: UUID) -> None:
        held = self.do(self.room.claim(self.job_id, attempt, worker))
        can = (
            self.model.state is JobState.ASSIGNED
            and (attempt, worker) == (self.model.attempt, self.model.worker)
            and not self.model.is_closing
        )
        assert (held is not None) == can
        if held is not None:
            self.model.happens(JobEvent.CLAIM)
            self.model.claim = held.claim_id
            self.claims.append(held)

    @precondition(lambda self: self.model.state is JobState.RUNNING and not self.model.is_closing)
    @rule()
    def claim_again_because_the_answer_was_lost(self) -> None:
        attempt, worker = self.attempts[-1]
        assert self.do(self.room.claim(self.job_id, attempt, worker, claim_id=self.model.claim)) is not None

    @precondition(lambda self: self.attempts)
    @rule(pick=st.randoms(use_true_random=False))
    def take_back(self, pick: Any) -> None:
        attempt, _ = pick.choice(self.attempts[-3:])

        async def requeue() -> bool:
            async with self.database.transaction() as session:
                return await scheduling.requeue(session, self.job_id, attempt_id=attempt) is not None

        can = self.model.state is JobState.ASSIGNED and attempt == self.model.attempt
        assert self.do(requeue()) == can
        if can:
            self.model.happens(JobEvent.UNCLAIMED)

    def _is_owner(self, held: Held) -> bool:
        return self.model.state is JobState.RUNNING and held.claim_id == self.model.claim

    @precondition(lambda self: self.claims)
    @rule(pick=st.randoms(use_true_random=False))
    def renew(self, pick: Any) -> None:
        held = pick.choice(self.claims[-3:])
        renewed = self.do(self.room.renew(held))
        assert (renewed is not None) == self._is_owner(held)
        if renewed is not None:
            assert renewed.is_cancelled == self.model.is_closing

    @precondition(lambda self: self.claims)
    @rule(pick=st.randoms(use_true_random=False), ordinal=st.integers(0, SAMPLES - 1))
    def append(self, pick: Any, ordinal: int) -> None:
        held = pick.choice(self.claims[-3:])
        self.chunks += 1
        appended = self.do(self.room.append(held, [ordinal], no=self.chunks))
        assert (appended is not None) == self._is_owner(held)
        if appended is not None:
            if ordinal not in self.model.rows:
                self.model.fails = 0
            self.model.rows.add(ordinal)
            assert appended.done == len(self.model.rows)

    @precondition(lambda self: self.claims)
    @rule(pick=st.randoms(use_true_random=False), outcome=st.sampled_from(OUTCOMES))
    def finish(self, pick: Any, outcome: Outcome | Cancelled) -> None:
        held = pick.choice(self.claims[-3:])
        state = self.do(self.room.finish(held, outcome))
        assert (state is not None) == self._is_owner(held)
        if state is None:
            return
        match outcome:
            case Complete() if len(self.model.rows) == SAMPLES:
                self.model.happens(JobEvent.COMPLETE)
            case Complete():
                self.model.fail()
            case Failed(permanent=is_permanent):
                self.model.fail(is_permanent=is_permanent)
            case Preempted() | Cancelled() if not self.model.is_closing:
                self.model.happens(JobEvent.PREEMPT)
            case _:
                self.model.happens(JobEvent.CANCEL)

    @precondition(lambda self: self.model.state is JobState.RUNNING)
    @rule()
    def lease_runs_out(self) -> None:
        self.do(self.room.let_lease_expire(self.job_id))
        self.do(self.room.reap())
        self.model.fail()

    @rule()
    def reap_while_nothing_is_lost(self) -> None:
        self.do(self.room.reap())

    @precondition(lambda self: not self.model.is_cancelled and len(self.attempts) > 2)
    @rule()
    def cancel(self) -> None:
        self.do(self.room.cancel(self.run_id))
        self.model.is_cancelled = self.model.is_cancelled or not self.model.is_ended

    @rule()
    def advance(self) -> None:
        self.do(self.room.advance())
        model = self.model
        if model.is_ended:
            return
        model.is_failing = model.is_failing or (model.state is JobState.FAILED and not model.is_cancelled)
        if (model.is_cancelled or model.is_failing) and model.state in {JobState.READY, JobState.ASSIGNED}:
            model.happens(JobEvent.CANCEL)
        model.is_ended = model.state.is_terminal

    @invariant()
    def database_and_model_agree(self) -> None:
        if not hasattr(self, "model"):
            return
        job = self.do(self.room.job(self.job_id))
        model = self.model
        assert (job.state, job.done, job.fails) == (model.state, len(model.rows), model.fails)
        if not model.state.is_terminal:
            assert (job.attempt_id, job.worker_id, job.claim_id) == (model.attempt, model.worker, model.claim)
        ordinals = "SELECT array_agg(ordinal ORDER BY ordinal) FROM fact WHERE run_id = :run"
        assert self.do(self.room.scalar(ordinals, run=self.run_id)) == (sorted(model.rows) or None)
        held = self.do(self.room.scalar("SELECT count(*) FROM reservation WHERE job_id = :job", job=self.job_id))
        assert held == (model.state in {JobState.ASSIGNED, JobState.RUNNING})
        run = self.do(self.room.run(self.run_id))
        assert run.state.is_terminal == model.is_ended
        seqs = [event.seq for event in self.do(self.room.events(self.run_id))]
        assert seqs == list(range(1, run.event_seq + 1))


def test_a_job_in_sql_behaves_as_the_model(database_url: str) -> None:
    JobMachine.url = database_url
    run_state_machine_as_test(
        JobMachine,
        settings=settings(
            max_examples=12,
            stateful_step_count=20,
            deadline=None,
            phases=(Phase.generate,),
            suppress_health_check=list(HealthCheck),
        ),
    )
