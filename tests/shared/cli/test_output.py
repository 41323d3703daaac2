"""What commands print while something is prepared."""

from __future__ import annotations

import asyncio
from typing import get_args

import pytest

from vlmhyperbench.cli.output import teller
from vlmhyperbench.cli.output_flags import TEXT, OutputFlags
from vlmhyperbench.environments.base import PreparationStep


@pytest.mark.parametrize("step", get_args(PreparationStep))
def test_every_step_of_a_preparation_is_shown_on_stderr(
    step: PreparationStep, capsys: pytest.CaptureFixture[str]
) -> None:
    asyncio.run(teller(TEXT, "vllm")(step, None))
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("vllm: ")
    assert shown.err.endswith(" …\n")


@pytest.mark.parametrize(("packages", "shown"), [(1, "1 package "), (12, "12 packages ")])
def test_packages_that_are_installed_are_counted(packages: int, shown: str, capsys: pytest.CaptureFixture[str]) -> None:
    asyncio.run(teller(TEXT, "vllm")("installing", packages))
    assert capsys.readouterr().err == f"vllm: Installing {shown}…\n"


def test_quiet_commands_show_no_step(capsys: pytest.CaptureFixture[str]) -> None:
    asyncio.run(teller(OutputFlags(quiet=True), "vllm")("resolving", None))
    assert capsys.readouterr().err == ""
