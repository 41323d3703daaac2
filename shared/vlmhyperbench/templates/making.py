"""Make the package of a plugin from its template: code, tests, a docs page and registry entries that pass at once."""

from __future__ import annotations

import keyword
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from string import Template
from typing import Final, Literal, get_args

from vlmhyperbench.errors import Conflict, InvalidInput
from vlmhyperbench.files import write_whole
from vlmhyperbench_sdk import discovery
from vlmhyperbench_sdk.discovery import Group
from vlmhyperbench_sdk.suggestions import did_you_mean

Kind = Literal["metric", "dataset", "prompt", "backend", "report"]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)

MAX_NAME_CHARS: Final = 60
_NAME: Final = re.compile(r"[a-z][a-z0-9]*(?:[-_][a-z0-9]+)*")
_COMMON: Final = "common"
_SUFFIX: Final = ".txt"
"""Suffix of a template, so that no tool takes it for code."""
_OURS: Final = "vlmhyperbench"
_GROUPS: Final[Mapping[Kind, Group]] = {
    "metric": "metrics",
    "dataset": "datasets",
    "prompt": "prompts",
    "backend": "backends",
    "report": "reports",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """A package that was made."""

    kind: Kind
    name: str
    """Name by which it is registered, which is that of its module."""
    class_path: str
    distribution: str
    folder: Path
    files: tuple[str, ...]
    """Paths in the folder, sorted."""


def make_package(kind: str, name: str, folder: Path | None = None) -> Made:
    """Write a package into a folder that has nothing in it.

    Args:
        kind: One of `KINDS`.
        name: Lower-case words, joined by `-` or `_`.
        folder: Where to write it; by default a folder of this name in the working folder.

    Raises:
        InvalidInput: there is no such template, or the name cannot be that of a module and of a distribution.
        Conflict: an installed package registers the name, or the folder has content.
        OSError: it cannot be written.
    """
    known = next((each for each in KINDS if each == kind), None)
    if known is None:
        cure = did_you_mean(kind, KINDS)
        raise InvalidInput(f"There is no template of a {kind!r}.", cure=cure, code="no_template")
    module = _module(known, name)
    words = module.split("_")
    distribution, class_name = "-".join(words), "".join(word.capitalize() for word in words)
    values = {
        "module": module,
        "class_name": class_name,
        "distribution": distribution,
        "title": " ".join(words).capitalize(),
        "kind": known,
        "group": _GROUPS[known],
    }
    target = Path.cwd() / distribution if folder is None else folder.absolute()
    _check_free(target)
    written = {path: Template(text).substitute(values) for path, text in _templates(known, module)}
    for path, text in written.items():
        (target / path).parent.mkdir(parents=True, exist_ok=True)
        write_whole(target / path, text.encode())
    return Made(
        kind=known,
        name=module,
        class_path=f"{module}:{class_name}",
        distribution=distribution,
        folder=target,
        files=tuple(sorted(written)),
    )


def _module(kind: Kind, name: str) -> str:
    """Return the name as that of a module, after checking that nothing else is called so."""
    cure = "Choose another name: lower-case words, joined by - or _, such as word-overlap."
    if len(name) > MAX_NAME_CHARS or not _NAME.fullmatch(name):
        message = f"{name[:100]!r} cannot be the name of a package."
        raise InvalidInput(message, cure=cure, code="no_name")
    module = name.replace("-", "_")
    if keyword.iskeyword(module) or module in sys.stdlib_module_names or module in {"test", "tests", "docs"}:
        raise InvalidInput(f"{name!r} is a word of Python itself.", cure=cure, code="no_name")
    if module.startswith(_OURS):
        raise InvalidInput(f"{name!r} is a name of the platform's own packages.", cure=cure, code="no_name")
    if module in discovery.names(_GROUPS[kind]):
        raise Conflict(f"An installed package registers the {kind} {module!r}.", cure=cure, code="name_taken")
    return module


def _check_free(folder: Path) -> None:
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        cure = "Choose another folder: --folder PATH. Nothing is ever overwritten."
        raise Conflict(f"{folder} exists already.", cure=cure, code="folder_taken")


def _templates(kind: Kind, module: str) -> Iterator[tuple[str, str]]:
    """Yield path in the package → text of its template; a kind's own replaces the common one."""
    root = files(__package__) / "files"
    found: dict[str, str] = {}
    for folder in (_COMMON, kind):
        for path, file in _walk(root / folder):
            found[path.removesuffix(_SUFFIX).replace("MODULE", module)] = file.read_text(encoding="utf-8")
    yield from found.items()


def _walk(folder: Traversable, base: str = "") -> Iterator[tuple[str, Traversable]]:
    for each in folder.iterdir():
        if each.is_dir():
            yield from _walk(each, f"{base}{each.name}/")
        elif each.name.endswith(_SUFFIX):
            yield f"{base}{each.name}", each
