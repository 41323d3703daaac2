"""`open`: where a browser can show a window, and what is said where no stack answers."""

from __future__ import annotations

from pathlib import Path

import pytest

from vlmhyperbench.cli.main import main
from vlmhyperbench.cli.opening import has_display


@pytest.mark.parametrize(
    ("environment", "platform", "expected"),
    [
        ({}, "linux", False),
        ({"DISPLAY": ""}, "linux", False),
        ({"DISPLAY": ":0"}, "linux", True),
        ({"WAYLAND_DISPLAY": "wayland-0"}, "linux", True),
        ({}, "darwin", True),
    ],
)
def test_a_browser_is_opened_only_where_it_can_show_a_window(
    environment: dict[str, str], platform: str, expected: bool
) -> None:
    assert has_display(environment, platform) is expected


def test_without_a_stack_the_command_says_how_to_start_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("VLMHB_HOME", str(tmp_path))
    assert main(["open"]) == 3
    assert "vlmhyperbench up" in capsys.readouterr().err
