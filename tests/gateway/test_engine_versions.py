"""The warnings of an engine's identity: an untried version, a way of starting, and what the engine states itself."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.support.wording import Wording
from vlmhyperbench_gateway.identity import identify_launched
from vlmhyperbench_sdk.gateway import EngineIdentity
from vlmhyperbench_sdk.protocols import EngineLaunch
from vlmhyperbench_sdk.types import JsonValue


def _identify(
    *tried: str,
    packages: Mapping[str, str] | None = None,
    properties: Mapping[str, JsonValue] | None = None,
    warns: tuple[str, ...] = (),
) -> EngineIdentity:
    launch = EngineLaunch(argv=("engine",), url="http://127.0.0.1:1", engine="vllm", tried=tried, warnings=warns)
    return identify_launched(
        launch,
        pid=1,
        packages=packages or {},
        weights_sha256={},
        properties=properties or {},
        environment={},
        variables={},
    )


@pytest.mark.parametrize("version", ["0.32", "0.32.0", "0.32.1.post1"])
def test_a_version_that_begins_with_a_tried_one_gives_no_warning(version: str) -> None:
    assert _identify("0.31", "0.32", packages={"vllm": version}).warnings == ()


def test_any_other_version_gives_a_warning(wording: Wording) -> None:
    for version in ("0.3", "0.33.0", "0.320"):
        (warning,) = _identify("0.32", packages={"vllm": version}).warnings
        assert version in warning
    wording(warning)


def test_an_adapter_that_names_no_version_warns_of_none() -> None:
    assert _identify(packages={"vllm": "9.9"}).warnings == ()


def test_a_version_that_no_distribution_has_is_the_one_that_the_engine_states() -> None:
    assert _identify(properties={"/version": {"version": "0.32.0+cpu"}}).version == "0.32.0+cpu"
    assert _identify(packages={"vllm": "0.31"}, properties={"/version": {"version": "0.32"}}).version == "0.31"
    assert _identify().version == "unknown"


def test_what_the_adapter_and_the_engine_warn_of_is_part_of_the_identity() -> None:
    stated: dict[str, JsonValue] = {"/props": {"warnings": ["No images."]}, "/version": {"version": "2"}}
    warnings = _identify("1", properties=stated, warns=("A test.",)).warnings
    assert (warnings[0], warnings[2]) == ("A test.", "No images.")
    assert "not with 2" in warnings[1]
    assert _identify(properties={"/props": {"warnings": "none"}}).warnings == ()
