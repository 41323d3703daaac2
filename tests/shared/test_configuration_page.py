"""The page of settings names every setting with its default."""

from pathlib import Path

import pytest

from vlmhyperbench.domain.tiers import TierPolicy
from vlmhyperbench.domain.timers import Timers
from vlmhyperbench.settings import Settings

PAGE = (Path(__file__).parents[2] / "docs" / "configuration.md").read_text()


@pytest.mark.parametrize("name", sorted(set(Settings.model_fields) - {"tiers", "timers"}))
def test_every_setting_is_on_the_page(name):
    assert f"`VLMHB_{name.upper()}`" in PAGE


@pytest.mark.parametrize("name", TierPolicy.model_fields)
def test_every_setting_of_tiers_is_on_the_page_with_its_default(name):
    default = TierPolicy.model_fields[name].default
    assert f"| `VLMHB_TIERS__{name.upper()}` | {'never' if default is None else f'{default:g}'} |" in PAGE


@pytest.mark.parametrize("name", Timers.model_fields)
def test_every_timer_is_on_the_page_with_its_default(name):
    assert f"| `VLMHB_TIMERS__{name.upper()}` | {Timers.model_fields[name].default:g} |" in PAGE
