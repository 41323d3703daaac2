"""The page of settings names every setting with its default."""

from pathlib import Path

import pytest

from vlmhyperbench.settings import Settings, Timers

PAGE = (Path(__file__).parents[2] / "docs" / "configuration.md").read_text()


@pytest.mark.parametrize("name", sorted(set(Settings.model_fields) - {"timers"}))
def test_every_setting_is_on_the_page(name):
    assert f"`VLMHB_{name.upper()}`" in PAGE


@pytest.mark.parametrize("name", Timers.model_fields)
def test_every_timer_is_on_the_page_with_its_default(name):
    assert f"| `VLMHB_TIMERS__{name.upper()}` | {Timers.model_fields[name].default:g} |" in PAGE
