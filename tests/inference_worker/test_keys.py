"""Which key an endpoint is shown: its own and no other, whoever asked before, and whatever its file says now."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Protocol
from uuid import UUID, uuid4

import pytest

from tests.loadgen.driving import respond, serving, whole
from tests.shared.domain.builders_of_jobs import judge_metric, run_spec
from tests.support.engine_room import EngineRoom
from tests.support.handling import ended
from vlmhyperbench.data import manifest
from vlmhyperbench.db import manifests
from vlmhyperbench.db.views import JobView
from vlmhyperbench.domain.outcomes import Complete, Failed, Outcome
from vlmhyperbench.domain.specs import EndpointTarget, MetricSpec, RunSpec
from vlmhyperbench.domain.steps import StepKind
from vlmhyperbench.logs import process_masker
from vlmhyperbench.runtime import Runtime, open_runtime
from vlmhyperbench.settings import Settings
from vlmhyperbench.worker.children import CpuChildren
from vlmhyperbench.worker.claims import ClaimedJob, WorkerContext
from vlmhyperbench_inference_worker.bench import Bench
from vlmhyperbench_inference_worker.evidence import EvidenceFolder
from vlmhyperbench_inference_worker.fleet import Fleet
from vlmhyperbench_inference_worker.generation import READERS, handle_generate
from vlmhyperbench_inference_worker.loading import secret_names
from vlmhyperbench_inference_worker.standby import Standby
from vlmhyperbench_inference_worker.work import Work
from vlmhyperbench_sdk.types import JsonValue

pytestmark = pytest.mark.anyio

SAMPLE = manifest.ManifestSample(index=0, key="k", question="?", references=("yes",))


class Ask(Protocol):
    """Does the GENERATE jobs of a run of one sample, one after the other: its own, then its judge's."""

    def __call__(self, spec: RunSpec, *, sample: manifest.ManifestSample = SAMPLE) -> Awaitable[list[Outcome]]: ...


class Endpoint:
    """Somebody else's engine, which notes every key that it is shown."""

    def __init__(self, url: str, *, key: str | None, guards: str) -> None:
        self.url = url
        self.shown: set[str] = set()
        self.headers: dict[str, str] = {}
        self.body: dict[str, JsonValue] = {}
        self._key = key
        self._guards = guards

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head.splitlines()[1:])}
        self.body = json.loads(await reader.readexactly(int(headers.get("content-length", "0"))) or b"{}")
        self.headers = headers
        given = headers.get("authorization")
        if given is not None:
            self.shown.add(given.removeprefix("Bearer "))
        if self._key is not None and self._guards in head and given != f"Bearer {self._key}":
            writer.write(respond(b"{}", status="401 Unauthorized"))
        else:
            writer.write(whole("yes") if head.startswith("POST") else respond(b'{"data": []}'))


@asynccontextmanager
async def endpoint(key: str | None = None, *, guards: str = "/v1/") -> AsyncIterator[Endpoint]:
    """Serve an endpoint that asks for a key, if any, wherever the path holds `guards`."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, _number: int) -> None:
        while True:
            await served.answer(reader, writer)

    async with serving(answer) as url:
        served = Endpoint(url.removesuffix("/v1/chat/completions"), key=key, guards=guards)
        yield served


@pytest.fixture
async def runtime(tmp_path: Path, fresh_database_url: str, redis_url: str) -> AsyncIterator[Runtime]:
    values = {
        "home": tmp_path,
        "database_url": fresh_database_url,
        "redis_url": redis_url,
        "allow_loopback_targets": True,
    }
    async with open_runtime(Settings.model_validate(values)) as runtime:
        yield runtime


@pytest.fixture
async def fleet() -> AsyncIterator[Fleet]:
    fleet = Fleet()
    yield fleet
    await fleet.close()


@pytest.fixture
async def ask(runtime: Runtime, fleet: Fleet, tmp_path: Path) -> AsyncIterator[Ask]:
    room, standby = EngineRoom(runtime.database), Standby(tmp_path / "work")
    evidence = EvidenceFolder(tmp_path / "evidence")
    bench = Bench(devices=[], fleet=fleet, standby=standby, evidence=evidence)

    async def do(job: JobView) -> Outcome:
        worker_id = await room.add_worker()
        held = await room.take(job.id, worker_id)
        context = WorkerContext(
            worker_id=worker_id, boot_id=uuid4(), name="w", runtime=runtime, settings=runtime.settings, label={}
        )
        claimed = ClaimedJob(held.job, claim_id=held.claim_id, context=context, cpu=CpuChildren())
        outcome = await ended(handle_generate(claimed, bench=bench))
        await room.finish(held, outcome)
        return outcome

    async def ask_all(spec: RunSpec, *, sample: manifest.ManifestSample = SAMPLE) -> list[Outcome]:
        run = await room.add_run(spec)
        await _index(room, runtime, run.id, sample)
        jobs = [job for kind in READERS for job in await room.jobs_of(run.id, kind)]
        return [await do(job) for job in jobs]

    yield ask_all
    await standby.close()


async def _index(room: EngineRoom, runtime: Runtime, run_id: UUID, sample: manifest.ManifestSample) -> None:
    """Do the INDEX job of a run: one sample, in a manifest that can be read."""
    [job] = await room.jobs_of(run_id, StepKind.INDEX)
    held = await room.take(job.id, await room.add_worker("evaluation"))
    manifest_id, data = manifest.write([sample])
    key = manifest.manifest_key(manifest_id)
    runtime.storage.put(key, data)
    async with runtime.database.transaction() as session:
        await manifests.add(
            session,
            manifest_id=manifest_id,
            dataset_digest="0" * 64,
            storage_key=key,
            size_bytes=len(data),
            samples=1,
            unreadable=int(sample.error is not None),
            group_columns=(),
        )
    await room.finish(held, Complete(data={"manifest_id": manifest_id, "samples": 1, "unreadable": 0}))
    await room.advance()


@pytest.fixture
def secrets(tmp_path: Path) -> Callable[..., None]:
    """Write secrets into the worker's folder: name=value."""
    folder = tmp_path / "secrets"
    folder.mkdir()

    def write(**values: str) -> None:
        for name, value in values.items():
            (folder / name).write_text(value)
            (folder / name).chmod(0o600)

    return write


def at(served: Endpoint, **params: JsonValue) -> EndpointTarget:
    return EndpointTarget(endpoint=f"{served.url}/v1", model_name="m", engine_params=params)


def run_of(target: EndpointTarget, *secrets: str, metrics: tuple[MetricSpec, ...] = ()) -> RunSpec:
    return run_spec(metrics=metrics, reports=()).model_copy(update={"target": target, "secrets": secrets})


def judged_by(target: EndpointTarget) -> tuple[MetricSpec, ...]:
    return (judge_metric(target=target),)


async def test_a_judge_is_shown_its_own_key_and_the_target_its_own(ask: Ask, secrets: Callable[..., None]) -> None:
    secrets(A_KEY="sk-of-a", B_KEY="sk-of-b")
    async with endpoint("sk-of-a") as a, endpoint("sk-of-b") as b:
        judges = judged_by(at(b, api_key_secret="B_KEY"))
        outcomes = await ask(run_of(at(a, api_key_secret="A_KEY"), "A_KEY", metrics=judges))
    assert [type(outcome) for outcome in outcomes] == [Complete, Complete]
    assert (a.shown, b.shown) == ({"sk-of-a"}, {"sk-of-b"})


async def test_a_judge_that_names_no_key_is_shown_none(ask: Ask, secrets: Callable[..., None]) -> None:
    secrets(A_KEY="sk-of-a")
    async with endpoint("sk-of-a") as a, endpoint() as b:
        outcomes = await ask(run_of(at(a), "A_KEY", metrics=judged_by(at(b))))
    assert [type(outcome) for outcome in outcomes] == [Complete, Complete]
    assert (a.shown, b.shown) == ({"sk-of-a"}, set())


async def test_the_key_that_a_judge_names_is_not_the_target_s(ask: Ask, secrets: Callable[..., None]) -> None:
    secrets(B_KEY="sk-of-b")
    async with endpoint() as a, endpoint("sk-of-b") as b:
        outcomes = await ask(run_of(at(a), "B_KEY", metrics=judged_by(at(b, api_key_secret="B_KEY"))))
    assert [type(outcome) for outcome in outcomes] == [Complete, Complete]
    assert (a.shown, b.shown) == (set(), {"sk-of-b"})


async def test_a_key_that_target_and_judge_share_is_named_by_both(ask: Ask, secrets: Callable[..., None]) -> None:
    secrets(KEY="sk-shared")
    async with endpoint("sk-shared") as a:
        target = at(a, api_key_secret="KEY")
        outcomes = await ask(run_of(target, "KEY", metrics=judged_by(target)))
    assert [type(outcome) for outcome in outcomes] == [Complete, Complete]


async def test_of_several_secrets_the_one_that_is_named_is_the_key(ask: Ask, secrets: Callable[..., None]) -> None:
    secrets(HF_TOKEN="hf-other", KEY="sk-key")
    async with endpoint("sk-key") as a:
        [outcome] = await ask(run_of(at(a, api_key_secret="KEY"), "HF_TOKEN", "KEY"))
    assert isinstance(outcome, Complete)
    assert a.shown == {"sk-key"}


async def test_of_several_secrets_none_is_guessed(ask: Ask, secrets: Callable[..., None]) -> None:
    secrets(HF_TOKEN="hf-other", KEY="sk-key")
    async with endpoint("sk-key") as a:
        [outcome] = await ask(run_of(at(a), "HF_TOKEN", "KEY"))
    assert isinstance(outcome, Failed)
    assert outcome.permanent
    assert "HF_TOKEN, KEY" in outcome.message
    assert "api_key_secret" in outcome.message
    assert a.shown == set()


async def test_an_endpoint_gets_its_own_headers_and_the_fields_that_it_wants(
    ask: Ask, secrets: Callable[..., None]
) -> None:
    secrets(KEY="sk-key", TENANT="blue-42")
    async with endpoint("sk-key") as a:
        target = at(
            a,
            headers={"X-Tenant": {"secret": "TENANT"}, "X-Title": "a bench"},
            max_tokens_field="max_completion_tokens",
            omit=["temperature"],
            extra_body={"chat_template_kwargs": {"enable_thinking": False}, "vendor_field": 3},
        )
        [outcome] = await ask(run_of(target, "KEY"))
    assert isinstance(outcome, Complete)
    assert (a.headers["x-tenant"], a.headers["x-title"], a.shown) == ("blue-42", "a bench", {"sk-key"})
    assert a.body["chat_template_kwargs"] == {"enable_thinking": False}
    assert a.body["vendor_field"] == 3
    assert a.body["max_completion_tokens"]
    assert not {"temperature", "max_tokens", "model_params"} & set(a.body)


@pytest.mark.parametrize("guards", ["/v1/models", "/v1/chat"])
async def test_an_endpoint_that_is_given_no_key_and_wants_one_says_how_to_name_it(ask: Ask, guards: str) -> None:
    async with endpoint("sk-key", guards=guards) as a:
        [outcome] = await ask(run_of(at(a)))
    assert isinstance(outcome, Failed)
    assert outcome.permanent
    assert "api_key_secret" in outcome.message


async def test_a_wrong_key_ends_the_run_at_its_first_try_and_is_named(ask: Ask, secrets: Callable[..., None]) -> None:
    secrets(KEY="sk-misspelt")
    async with endpoint("sk-right", guards="/v1/models") as a:
        [outcome] = await ask(run_of(at(a), "KEY"))
    assert isinstance(outcome, Failed)
    assert (outcome.code, outcome.permanent) == ("endpoint_denied", True)
    assert "HTTP 401" in outcome.message
    assert "secret set KEY" in outcome.message
    assert process_masker.mask("the key sk-misspelt") == "the key ********"
    assert "sk-misspelt" not in outcome.message


async def test_the_next_run_is_billed_to_its_own_key(ask: Ask, fleet: Fleet, secrets: Callable[..., None]) -> None:
    secrets(ONE="sk-one", TWO="sk-two")
    async with endpoint() as a:
        for names, shown in ((("ONE",), {"sk-one"}), (("TWO",), {"sk-two"}), ((), set())):
            a.shown.clear()
            spec = run_of(at(a), *names)
            [outcome] = await ask(spec)
            assert isinstance(outcome, Complete)
            assert a.shown == shown
            assert fleet.resident == [spec.target_digest]
        [outcome] = await ask(run_of(at(a), "THREE"))
    assert isinstance(outcome, Failed)
    assert (outcome.code, outcome.permanent) == ("not_found", True)


async def test_a_key_that_was_corrected_or_rotated_is_used_at_once(
    ask: Ask, fleet: Fleet, secrets: Callable[..., None]
) -> None:
    secrets(KEY="sk-misspelt")
    async with endpoint("sk-right", guards="/v1/chat") as a:
        [outcome] = await ask(run_of(at(a), "KEY"))
        assert isinstance(outcome, Failed)
        assert (outcome.code, outcome.permanent) == ("endpoint_key_refused", True)
        assert fleet.resident == []
        secrets(KEY="sk-right")
        [outcome] = await ask(run_of(at(a), "KEY"))
        assert isinstance(outcome, Complete)
        a.shown.clear()
        secrets(KEY="sk-rotated")
        [outcome] = await ask(run_of(at(a), "KEY"))
    assert isinstance(outcome, Failed)
    assert a.shown == {"sk-rotated"}


def test_a_local_judge_has_the_secrets_of_its_run_and_an_endpoint_only_the_key_that_it_names() -> None:
    remote = EndpointTarget(
        endpoint="https://judge.example/v1", model_name="m", engine_params={"api_key_secret": "KEY"}
    )
    spec = run_spec().model_copy(update={"secrets": ("HF_TOKEN", "KEY")})
    local = Work(spec=spec, samples=[], missing=[], step=StepKind.JUDGE)
    assert secret_names(local) == ["HF_TOKEN", "KEY"]
    assert secret_names(replace(local, spec=spec.model_copy(update={"target": remote}))) == ["KEY"]
