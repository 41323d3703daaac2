"""An engine on a rented machine: real SkyPilot, a provider on loopback, a machine with an sshd, a real llama.cpp.

`make clients` installs SkyPilot into `.venvs/rented` and runs these tests, which need root for the machine. Without
either they are skipped; with `VLMHB_NEED_CLIENTS` that is a failure.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from uv import find_uv_bin

from tests.engines.rented import store_of_skypilot
from tests.support.environments import workshop_in
from tests.support.processes import eventually
from tests.support.rented import KEY, Provider, serve_provider
from vlmhyperbench.domain.environments import RentedSpec
from vlmhyperbench.environments.preparing import prepared
from vlmhyperbench.environments.rented_files import send_files
from vlmhyperbench.environments.rented_records import machines_in
from vlmhyperbench.errors import InvalidInput, Unavailable
from vlmhyperbench.worker.gateway import GatewayClient, GatewayOptions
from vlmhyperbench_sdk.gateway import EngineEnvironment, LoadRequest
from vlmhyperbench_tiny_doc_vlm import path

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(1200)]

REQUIREMENTS = ("xllamacpp==2026.10.11549",)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def store() -> Path:
    return store_of_skypilot()


@pytest.fixture
def provider(store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Provider]:
    with serve_provider(tmp_path, uv=find_uv_bin()) as running:
        for name, value in running.variables.items():
            monkeypatch.setenv(name, value)
        yield running


def sha256(path: Path | str) -> str:
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def size_of(path: str) -> int:
    return Path(path).stat().st_size


def contents(*folders: Path) -> bytes:
    return b"".join(file.read_bytes() for folder in folders for file in folder.rglob("*") if file.is_file())


def wanted(**fields: object) -> RentedSpec:
    given = {"cloud": "runpod", "accelerators": "L4:1", "max_hourly_cost_usd": 1.0, "requirements": REQUIREMENTS}
    return RentedSpec(**{**given, **fields})


async def returned(provider: Provider, store: Path) -> None:
    """Wait until no machine is rented, and none is on record."""

    async def is_gone() -> bool:
        return not provider.machines and not machines_in(store)

    await eventually(is_gone, "the return of the machine")


async def test_an_engine_runs_on_a_rented_machine_which_is_returned(
    provider: Provider, store: Path, tmp_path: Path
) -> None:
    secret = "a-word-that-nobody-may-read"
    files = {"weights": str(path("tiny-doc-vlm-f16.gguf", "0.2"))}
    load = LoadRequest(
        model="tiny", backend_class="llamacpp", files=files, env={"HF_TOKEN": secret}, load_timeout_s=300
    )
    sent: list[tuple[int, int]] = []

    async def note(done: int, total: int) -> None:
        sent.append((done, total))

    async with prepared(wanted(), workshop_in(store)) as ready:
        [machine] = provider.machines.values()
        assert ready.rented is not None
        await send_files(ready.rented, list(files.values()), sent=note)
        assert sent[-1] == (size_of(files["weights"]),) * 2
        there = machine.folder / "upper/root/vlmhyperbench/files" / files["weights"][1:]
        arrived = there.stat().st_ctime_ns
        assert ready.packages["xllamacpp"] == "2026.10.11549"
        environment = ready.engine(EngineEnvironment())
        options = GatewayOptions(environment=environment, log=tmp_path / "gateway.log", lock_fds=(ready.lock_fd,))
        gateway = await GatewayClient.start(options)
        status = await gateway.load(load)
    engine = status.engine
    assert engine is not None
    assert engine.environment == {
        "kind": "remote",
        "cloud": "runpod",
        "region": "CA",
        "instance_type": "1x_L4_SECURE",
        "accelerators": "L4:1",
    }
    assert engine.packages == ready.packages
    question = {"model": "tiny", "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 4}
    async with httpx2.AsyncClient(trust_env=False) as client:
        answer = await client.post(f"{status.engine_url}/v1/chat/completions", json=question, timeout=60)
    assert answer.status_code == 200
    assert answer.json()["usage"]["completion_tokens"] > 0
    assert sha256(machine.folder / "upper/root/vlmhyperbench/files" / files["weights"][1:]) == sha256(files["weights"])
    assert there.stat().st_ctime_ns == arrived, "the load has not sent it again"
    [name] = machines_in(store)
    assert machine.name.startswith(name)
    await gateway.close()
    await returned(provider, store)
    assert len(provider.rented) == 1
    assert machine.process is not None
    assert machine.process.poll() is not None
    written = contents(store / "logs", store / "machines")
    assert secret.encode() not in written
    assert KEY.encode() not in written


@pytest.mark.parametrize(
    ("fields", "code", "named"),
    [
        ({"accelerators": "H100:1"}, "no_machine", "L4:1"),
        ({"max_hourly_cost_usd": 0.1}, "too_expensive", "0.43"),
        ({"region": "XX"}, "no_machine", "XX"),
        ({"region": "US"}, "too_expensive", "of runpod in US costs 2.43"),
    ],
)
async def test_what_nobody_offers_is_said_before_anything_is_rented(
    provider: Provider, store: Path, tmp_path: Path, fields: dict[str, object], code: str, named: str
) -> None:
    with pytest.raises(InvalidInput) as refused:
        await prepared(wanted(**fields), workshop_in(store)).__aenter__()
    assert refused.value.code == code, refused.value
    assert named in str(refused.value)
    await returned(provider, store)
    assert not provider.rented


async def test_without_credentials_the_error_says_where_they_belong(
    provider: Provider, store: Path, tmp_path: Path
) -> None:
    (tmp_path / "home" / ".runpod" / "config.toml").unlink()
    with pytest.raises(InvalidInput) as refused:
        await prepared(wanted(), workshop_in(store)).__aenter__()
    assert refused.value.code == "no_credentials"
    assert "~/.runpod/config.toml" in refused.value.message
    await returned(provider, store)


async def test_a_machine_that_never_comes_up_is_given_up_and_returned(
    provider: Provider, store: Path, tmp_path: Path
) -> None:
    provider.never_boots = True
    with pytest.raises(Unavailable) as refused:
        await prepared(wanted(max_start_minutes=1.5), workshop_in(store)).__aenter__()
    assert refused.value.code == "machine_timeout"
    assert len(provider.rented) == 1
    await returned(provider, store)
