"""The pages show commands that exist, with the options that they have."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.shared.cli.help_pages import GOLDEN

ROOT = Path(__file__).parents[3]
PAGES = sorted(
    [
        *(ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "compose.yaml", ROOT / "deploy/monitoring/rules.yml"),
        *(ROOT / "deploy/helm").rglob("NOTES.txt"),
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "shared").rglob("README.md"),
    ]
)
"""What users read, that is: everything with a command in it."""
HELP = {
    tuple(page.split(" --help\n", 1)[0].split()): page
    for page in re.split(r"^\$ vlmhyperbench ?", GOLDEN.read_text(encoding="utf-8"), flags=re.MULTILINE)
    if " --help\n" in page
}
"""Words of a command → what its `--help` prints."""


def wrong(shown: str) -> str | None:
    """Say what is wrong with a command as a page shows it, from its first word to the end of its line or code."""
    words = shown.split()
    command = next((tuple(words[:count]) for count in (3, 2, 1) if tuple(words[:count]) in HELP), None)
    is_group = any(other[:-1] == command for other in HELP)
    if command is None or (is_group and re.match(r"[a-z]", " ".join(words[len(command) :]))):
        return f"there is no command {shown}"
    options = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", shown)) - set(re.findall(r"--[a-z][a-z-]*", HELP[command]))
    return f"{' '.join(command)} has no {', '.join(sorted(options))}" if options else None


def shown_in(text: str) -> list[str]:
    """Return every command of a page: in the code of a block and in that of a sentence, without comments and values."""
    text = text.replace("\\\n", " ")
    return re.findall(r"(?<![\w/.-])vlmhyperbench ([a-z][^\n`#|&;'\"]*)", "\n".join(_code(text)))


def _code(text: str) -> list[str]:
    blocks = re.findall(r"^```(?:sh|bash)?\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)
    return [*blocks, *re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_commands_of_a_page_exist_with_their_options(page: Path) -> None:
    commands = shown_in(page.read_text(encoding="utf-8"))
    assert not [reason for command in commands if (reason := wrong(command)) is not None]


def test_a_wrong_command_and_a_wrong_option_are_noticed() -> None:
    assert wrong("envs builds x") == "there is no command envs builds x"
    assert wrong("envs build x --modell y") == "envs build has no --modell"
    assert shown_in("Type `vlmhyperbench ls --json` or\n```sh\nvlmhyperbench up   # now\n```\n") == [
        "up   ",
        "ls --json",
    ]
