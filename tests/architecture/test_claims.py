"""What the house declares it also uses: events are emitted, states set, settings and registry keys read, words meant.

What a later piece of work will use may be declared before: its docstring says so in a sentence with "sed by … once".
"""

import ast
import re
from enum import StrEnum
from pathlib import Path

import pytest
from pydantic import BaseModel

from tests.architecture.test_house import ROOT, _files
from vlmhyperbench.domain import states, steps
from vlmhyperbench.domain.timers import Timers
from vlmhyperbench.events import EventType
from vlmhyperbench.registry import choices, schemas
from vlmhyperbench.settings import Settings

FOR_LATER = re.compile(r"\b[Uu]sed (by|once)\b")
STATES = [
    found
    for module in (states, steps)
    for found in vars(module).values()
    if isinstance(found, type) and issubclass(found, StrEnum) and found.__module__ == module.__name__
]
ENTRIES = [
    found
    for module in (schemas, choices)
    for found in vars(module).values()
    if isinstance(found, type) and issubclass(found, BaseModel) and found.__module__ == module.__name__
]


def sources(*, without: tuple[str, ...] = ()) -> dict[Path, str]:
    """Return the product's own modules with their text; tests and migrations use nothing."""
    return {
        path: path.read_text()
        for path in _files("shared/*.py", "services/*.py")
        if not {"tests", "versions", "training"} & set(path.parts) and not str(path).endswith(without)
    }


CODE = "\n".join(sources().values())


def for_later(module: Path, owner: str) -> set[str]:
    """Return the members of a class whose docstrings say that something later uses them."""
    classes = [node for node in ast.parse(module.read_text()).body if isinstance(node, ast.ClassDef)]
    [found] = [node for node in classes if node.name == owner]
    said = set()
    for member, after in zip(found.body, found.body[1:], strict=False):
        text = after.value.value if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant) else ""
        if isinstance(member, ast.Assign | ast.AnnAssign) and FOR_LATER.search(str(text)):
            target = member.targets[0] if isinstance(member, ast.Assign) else member.target
            said.add(ast.unparse(target))
    return said


@pytest.mark.parametrize("event", EventType)
def test_every_event_is_emitted(event: EventType) -> None:
    of, _, what = event.value.partition(".")
    families = {"run": states.RunState, "experiment": states.ExperimentState, "phase": states.PhaseState}
    by_state = of in families and what.upper() in families[of].__members__ and f'EventType(f"{of}.{{' in CODE
    by_word = of == "job" and re.search(rf'(job_event\([^)]*|event=|what=|return |: )"{what}"', CODE)
    assert f"EventType.{event.name}" in CODE or by_state or by_word


@pytest.mark.parametrize(("kind", "member"), [(kind, member) for kind in STATES for member in kind])
def test_every_state_is_set_or_said_to_be_for_later(kind: type[StrEnum], member: StrEnum) -> None:
    module = Path(__import__(kind.__module__, fromlist=["_"]).__file__)
    used = len(re.findall(rf"\b{kind.__name__}\.{member.name}\b", CODE)) + len(re.findall(f"'{member.value}'", CODE))
    assert used or member.name in for_later(module, kind.__name__)


@pytest.mark.parametrize("field", [*Settings.model_fields, *Timers.model_fields])
def test_every_setting_is_read(field: str) -> None:
    declared = ("vlmhyperbench/settings.py", "vlmhyperbench/domain/timers.py")
    elsewhere = "\n".join(sources(without=declared).values())
    own = Path(ROOT / "shared/vlmhyperbench/settings.py").read_text()
    assert re.search(rf"\.{field}\b", elsewhere) or re.search(rf"self\.{field}\b", own)


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.__name__)
def test_every_key_of_a_registry_entry_is_read_or_said_to_be_for_later(entry: type[BaseModel]) -> None:
    module = Path(__import__(entry.__module__, fromlist=["_"]).__file__)
    unread = {name for name in entry.__annotations__ if not re.search(rf"\.{name}\b|\"{name}\"", CODE)}
    assert unread <= for_later(module, entry.__name__)


def words() -> list[str]:
    """Return every word that the glossary explains."""
    page = (ROOT / "docs" / "glossary.md").read_text()
    cells = re.findall(r"^\| ([^|]+) \|", page, re.MULTILINE)[1:]
    return [word.strip() for cell in cells for word in cell.split(",")]


@pytest.mark.parametrize("word", words())
def test_every_word_of_the_glossary_is_one_of_the_code(word: str) -> None:
    written = re.sub(r"[ -]", "[ _-]?", re.escape(word).replace(r"\ ", " ").replace(r"\-", "-"))
    assert re.search(rf"(?<![a-z]){written}", CODE, re.IGNORECASE)
