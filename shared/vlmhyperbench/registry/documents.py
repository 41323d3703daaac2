"""Strict parsing of a YAML file: plain data with the location of every value, or all of its errors.

Only the JSON subset of YAML 1.2's core schema is read: no aliases, no tags, no duplicate keys, no dates, `yes` is text.
Size and depth are bounded before anything is built.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path as FilePath
from typing import Final, Protocol

import yaml
from pydantic import JsonValue

from vlmhyperbench.registry.errors import Path, RegistryError, SourceLocation, field_of

MAX_BYTES: Final = 1024 * 1024
MAX_DEPTH: Final = 32
MAX_INTEGER: Final = 2**63
_CORRECT: Final = "Correct the line; indentation and quotes are the usual reasons."

_NULL: Final = frozenset({"", "~", "null", "Null", "NULL"})
_BOOLEANS: Final = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_INTEGER: Final = re.compile(r"[-+]?[0-9]+")
_FLOAT: Final = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_NOT_FINITE: Final = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")


@dataclass(frozen=True, slots=True)
class Document:
    """A mapping with the location of every value, by its path."""

    value: dict[str, JsonValue]
    locations: dict[Path, SourceLocation] = field(default_factory=dict)

    def location_of(self, path: Path) -> SourceLocation:
        """Return the location of the value at a path, or of its nearest written ancestor."""
        for length in range(len(path), -1, -1):
            if path[:length] in self.locations:
                return self.locations[path[:length]]
        raise KeyError(path)


class _Mark(Protocol):
    """Common interface of PyYAML's two classes of marks, one of which is written in C."""

    line: int


class _Loader(yaml.SafeLoader):
    """A loader without implicit resolution: this module decides what a plain scalar means."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012 - PyYAML's own name


class _FastLoader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc] # some builds have no libyaml
    """The same loader in C, several times as fast. What it cannot read, `_Loader` reads again and explains."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012 - PyYAML's own name


def read_document(path: FilePath, shown: str) -> tuple[Document | None, list[RegistryError]]:
    """Parse a file; errors call it `shown`."""
    try:
        if not path.exists():
            return None, [RegistryError(file=shown, message="There is no such file.", cure="Correct the path.")]
        if not path.is_file():
            return None, [RegistryError(file=shown, message="It is not a regular file.", cure="Put a file there.")]
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        message = f"It cannot be read: {error.strerror}."
        return None, [RegistryError(file=shown, message=message, cure="Correct its permissions.")]
    if len(data) > MAX_BYTES:
        message = f"It is larger than {MAX_BYTES} bytes."
        return None, [RegistryError(file=shown, message=message, cure="Split it into several entries.")]
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        return None, [RegistryError(file=shown, line=line, message="It is not UTF-8.", cure="Save it as UTF-8.")]
    return parse_document(text, shown)


def parse_document(text: str, shown: str) -> tuple[Document | None, list[RegistryError]]:
    """Parse the text of a file; errors call it `shown`."""
    loader: type[_Loader | _FastLoader] = _FastLoader
    try:
        errors = list(_structure(text, shown, loader))
    except (yaml.YAMLError, UnicodeEncodeError):
        loader = _Loader
        errors = list(_explained(text, shown))
    if errors:
        return None, errors
    node = yaml.compose(text, Loader=loader)
    if not isinstance(node, yaml.MappingNode):
        what = "It is empty." if node is None else "It does not hold keys and values."
        return None, [RegistryError(file=shown, line=1, message=what, cure="Write `key: value` lines.")]
    builder = _Builder(shown)
    value = builder.build(node, ())
    if builder.errors or not isinstance(value, dict):
        return None, builder.errors
    return Document(value, builder.locations), []


def _explained(text: str, shown: str) -> Iterator[RegistryError]:
    """Refuse text as `_structure` does; what is no YAML is an error too."""
    try:
        yield from _structure(text, shown, _Loader)
    except yaml.MarkedYAMLError as error:
        line = _line(error.problem_mark or error.context_mark)
        yield RegistryError(file=shown, line=line, message=f"It is no YAML: {error.problem}.", cure=_CORRECT)
    except yaml.YAMLError as error:
        message = f"It is no YAML: {str(error).splitlines()[0]}."
        yield RegistryError(file=shown, line=1, message=message, cure=_CORRECT)


def _structure(text: str, shown: str, loader: type[_Loader | _FastLoader]) -> Iterator[RegistryError]:
    """Refuse text that is nested too deeply, has tags or uses aliases, before any data is built.

    Raises:
        yaml.YAMLError: it is malformed.
    """
    depth = documents = 0
    for event in yaml.parse(text, Loader=loader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        documents += isinstance(event, yaml.DocumentStartEvent)
        refusal = _refusal(event, depth, documents)
        if refusal is not None:
            message, cure = refusal
            yield RegistryError(file=shown, line=_line(event.start_mark), message=message, cure=cure)
            return


def _refusal(event: yaml.Event, depth: int, documents: int) -> tuple[str, str] | None:
    if documents > 1:
        return "It holds a second YAML document.", "Write each entry into a file of its own."
    if depth > MAX_DEPTH:
        return f"It is nested deeper than {MAX_DEPTH} levels.", "Nest it in fewer levels."
    if isinstance(event, yaml.AliasEvent):
        return "YAML aliases are not supported.", "Write the value out."
    if isinstance(event, (yaml.ScalarEvent, yaml.CollectionStartEvent)) and event.tag is not None:
        return f"The YAML tag {event.tag} is not supported.", "Remove it."
    return None


def _line(mark: _Mark | None) -> int:
    return mark.line + 1 if mark is not None else 1


class _Builder:
    """Converts YAML nodes into plain data and records their locations."""

    def __init__(self, shown: str) -> None:
        self.errors: list[RegistryError] = []
        self.locations: dict[Path, SourceLocation] = {}
        self._shown = shown

    def build(self, node: yaml.Node, path: Path) -> JsonValue:
        self.locations.setdefault(path, SourceLocation(self._shown, _line(node.start_mark)))
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path)
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node, path)
        return [self.build(item, (*path, no)) for no, item in enumerate(node.value)]

    def _mapping(self, node: yaml.MappingNode, path: Path) -> dict[str, JsonValue]:
        built: dict[str, JsonValue] = {}
        for key, value in node.value:
            name = key.value if isinstance(key, yaml.ScalarNode) else None
            if not isinstance(name, str) or name == "<<" or (not key.style and not isinstance(_plain(name), str)):
                self._refuse(key, path, "a key is no text", "Put the key in quotes.")
                continue
            if not _is_text(name):
                self._refuse(key, path, "a key holds a NUL or an unpaired surrogate", "Remove it.")
                continue
            if name in built:
                self._refuse(key, (*path, name), "the key comes twice", "Remove one of the two.")
                continue
            self.locations[(*path, name)] = SourceLocation(self._shown, _line(key.start_mark))
            built[name] = self.build(value, (*path, name))
        return built

    def _scalar(self, node: yaml.ScalarNode, path: Path) -> JsonValue:
        text = str(node.value)
        if not _is_text(text):
            self._refuse(node, path, "a text holds a NUL or an unpaired surrogate", "Remove it.")
            return None
        if node.style:  # plain: None of one parser, "" of the other
            return text
        value = _plain(text)
        if isinstance(value, float) and not math.isfinite(value):
            self._refuse(node, path, "the number is not finite", "Write a finite number.")
            return None
        if isinstance(value, int) and abs(value) >= MAX_INTEGER:
            self._refuse(node, path, "the number is too large", "Put it in quotes if it is text.")
            return None
        return value

    def _refuse(self, node: yaml.Node, path: Path, message: str, cure: str) -> None:
        line = _line(node.start_mark)
        self.errors.append(
            RegistryError(file=self._shown, line=line, field=field_of(path), message=f"{message}.", cure=cure)
        )


def _is_text(text: str) -> bool:
    return "\0" not in text and not any("\ud800" <= character <= "\udfff" for character in text)


def _plain(text: str) -> str | int | float | bool | None:
    """Return the value of a plain scalar."""
    if text in _NULL:
        return None
    if text in _BOOLEANS:
        return _BOOLEANS[text]
    if _INTEGER.fullmatch(text):
        return int(text) if len(text) < 30 else MAX_INTEGER
    if _FLOAT.fullmatch(text):
        return float(text)
    return math.inf if _NOT_FINITE.fullmatch(text) else text
