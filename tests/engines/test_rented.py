"""Machines that cannot be rented: real SkyPilot, a provider on loopback. Those that can are in `test_rented_runs.py`.

`make clients` installs SkyPilot into `.venvs/rented` and runs these tests, which need root for the machine. Without
either they are skipped; with `VLMHB_NEED_CLIENTS` that is a failure.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from uv import find_uv_bin

from tests.engines.rented import link_skypilot
from tests.support.environments import workshop_in
from tests.support.processes import eventually
from tests.support.rented import Provider, serve_provider
from vlmhyperbench.domain.environments import RentedSpec
from vlmhyperbench.environments.preparing import prepared
from vlmhyperbench.environments.rented_records import machines_in
from vlmhyperbench.errors import InvalidInput, Unavailable

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(1200)]

REQUIREMENTS = ("xllamacpp==2026.10.11549",)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def store(tmp_path: Path) -> Path:
    folder = tmp_path / "environments"
    link_skypilot(folder)
    return folder


@pytest.fixture
def provider(store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Provider]:
    with serve_provider(tmp_path, uv=find_uv_bin()) as running:
        for name, value in running.variables.items():
            monkeypatch.setenv(name, value)
        yield running


def wanted(**fields: object) -> RentedSpec:
    given = {"cloud": "runpod", "accelerators": "L4:1", "max_hourly_cost_usd": 1.0, "requirements": REQUIREMENTS}
    return RentedSpec(**{**given, **fields})


async def returned(provider: Provider, store: Path) -> None:
    """Wait until no machine is rented, and none is on record."""

    async def is_gone() -> bool:
        return not provider.machines and not machines_in(store)

    await eventually(is_gone, "the return of the machine")


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


async def test_a_machine_that_does_not_come_up_in_time_is_given_up_and_returned(
    provider: Provider, store: Path, tmp_path: Path
) -> None:
    provider.never_boots = True
    with pytest.raises(Unavailable) as refused:
        await prepared(wanted(max_start_minutes=0.1), workshop_in(store)).__aenter__()
    assert refused.value.code == "machine_timeout"
    await returned(provider, store)
