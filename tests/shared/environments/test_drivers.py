"""Packages that need a newer driver are refused before the engine starts."""

from __future__ import annotations

import pytest

from tests.support.wording import Wording
from vlmhyperbench.environments.drivers import check_driver
from vlmhyperbench.errors import Conflict

OLD = {"driver": "550.54.15", "cuda": "12.4"}
NEW = {"driver": "580.65.06", "cuda": "13.0"}
NONE = {"driver": None, "cuda": None}


@pytest.mark.parametrize("name", ["nvidia-cuda-runtime", "nvidia-cuda-runtime-cu13"])
def test_packages_of_a_newer_cuda_are_refused(name: str, wording: Wording) -> None:
    with pytest.raises(Conflict) as refused:
        check_driver({"packages": {name: "13.0.48", "torch": "2.13.0"}}, OLD)
    assert refused.value.code == "driver_too_old"
    wording(refused.value)


@pytest.mark.parametrize(
    ("packages", "machine"),
    [
        ({"nvidia-cuda-runtime-cu12": "12.8.90"}, OLD),  # minor versions of CUDA serve each other
        ({"nvidia-cuda-runtime-cu11": "11.8.89"}, OLD),
        ({"nvidia-cuda-runtime": "13.0.48"}, NEW),
        ({"nvidia-cuda-runtime": "13.0.48"}, NONE),
        ({"torch": "2.13.0+cpu"}, OLD),
    ],
)
def test_packages_that_the_driver_serves_pass(packages: dict[str, str], machine: dict[str, str | None]) -> None:
    check_driver({"packages": packages}, machine)


def test_the_platform_s_own_interpreter_is_not_checked() -> None:
    check_driver(None, OLD)
    check_driver({"kind": "platform"}, OLD)
