"""Sentences that users read, in one golden file (`tests/wording.jsonl`): a test that needs a sentence gives it here.

Everything else asserts codes, fields, locations and values. Who changes a sentence writes the file anew with
`pytest --write-wording PATHS` and reads the difference in the commit.
"""

from __future__ import annotations

import fcntl
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from vlmhyperbench_sdk.errors import VlmHyperBenchError

GOLDEN = Path(__file__).parents[1] / "wording.jsonl"
WRITTEN = pytest.StashKey[dict[str, list[str]]]()
"""Test → its sentences; none of a test that no longer exists."""
DESELECTED = pytest.StashKey[set[str]]()

Wording = Callable[..., None]


def read_golden() -> dict[str, list[str]]:
    """Read the sentences of each test, by the test's id."""
    if not GOLDEN.exists():
        return {}
    return {test: sentences for test, *sentences in map(json.loads, GOLDEN.read_text(encoding="utf-8").splitlines())}


def write_golden(written: dict[str, list[str]]) -> None:
    """Put the sentences of these tests in the place of their old ones; other processes may do the same."""
    with GOLDEN.open("a+", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        golden = {test: sentences for test, sentences in (read_golden() | written).items() if sentences}
        file.seek(0)
        file.truncate()
        file.writelines(json.dumps([test, *golden[test]], ensure_ascii=False) + "\n" for test in sorted(golden))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--write-wording", action="store_true", help="Write the sentences of these tests anew.")


def pytest_configure(config: pytest.Config) -> None:
    config.stash[WRITTEN] = {}
    config.stash[DESELECTED] = set()


def pytest_deselected(items: list[pytest.Item]) -> None:
    for item in items:
        item.config.stash[DESELECTED].add(item.nodeid)


def pytest_sessionfinish(session: pytest.Session) -> None:
    if session.config.stash[WRITTEN]:
        write_golden(session.config.stash[WRITTEN])


@pytest.fixture(scope="session")
def golden_wording(request: pytest.FixtureRequest) -> dict[str, list[str]]:
    """The sentences of each test as the golden file has them; none may be of a test that no longer exists."""
    golden, config = read_golden(), request.config
    if not any("::" in argument for argument in config.args):
        tests = {item.nodeid for item in request.session.items} | config.stash[DESELECTED]
        files = {_file_of(test) for test in tests}
        stale = {test for test in golden if _file_of(test) in files} - tests
        if config.option.write_wording:
            config.stash[WRITTEN].update({test: [] for test in stale})
        else:
            assert not stale, f"{GOLDEN.name} has sentences of tests that do not exist: {sorted(stale)}"
    return golden


def _file_of(test: str) -> str:
    return test.partition("::")[0]


class Sentences:
    """The sentences of one test, in the order in which it read them."""

    def __init__(self, known: list[str] | None, hidden: Mapping[str, object]) -> None:
        """`known` is what the golden file says, or None to accept everything; `hidden` changes between runs."""
        self.known, self.hidden = known, hidden
        self.read: list[str] = []

    def check(self, text: object, **changing: object) -> None:
        """Check the next text, or an error's class, code, message and cure."""
        if isinstance(text, VlmHyperBenchError):
            text = f"{type(text).__name__} {text.code}: {text}"
        sentence = str(text)
        for name, value in {**self.hidden, **changing}.items():
            sentence = sentence.replace(str(value), name)
        self.read.append(sentence)
        if self.known is not None:
            number = len(self.read)
            assert [sentence] == self.known[number - 1 : number], (
                f"Not as in {GOLDEN.name}; if so meant: --write-wording"
            )

    def check_all_read(self) -> None:
        """Check that the test has read every sentence that the golden file has of it."""
        assert self.known is None or len(self.read) >= len(self.known), f"It reads {len(self.read)} of {self.known}"


@pytest.fixture
def wording(request: pytest.FixtureRequest, golden_wording: dict[str, list[str]], tmp_path: Path) -> Iterator[Wording]:
    """Check a text or an error's class, code, message and cure: `wording(refused.value, RUN=run.id)`.

    What changes between runs is given by keyword, whose name takes its place; the test's `tmp_path` is `TMP`.
    """
    test, is_writing = request.node.nodeid, request.config.option.write_wording
    sentences = Sentences(None if is_writing else golden_wording.get(test, []), {"TMP": tmp_path})
    yield sentences.check
    sentences.check_all_read()
    if is_writing:
        request.config.stash[WRITTEN][test] = sentences.read
