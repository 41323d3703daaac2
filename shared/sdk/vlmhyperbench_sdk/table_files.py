"""Which tables of a folder are a split: by its card, or else by the names of files and folders.

The rules are those of `datasets` for a repository of the Hugging Face hub. The folder may be on this machine, or be
listed by a hub, of which then only the chosen files are fetched. Beyond those rules a config may also be a folder, as
on the branch `refs/convert/parquet`, and `save_to_disk` may have written the folder.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from typing import Any, Final, Protocol, TypeVar

from vlmhyperbench_sdk.compressed import unpacking
from vlmhyperbench_sdk.errors import InvalidInput, NotFound
from vlmhyperbench_sdk.suggestions import did_you_mean

SUFFIXES: Final = (".parquet", ".arrow", ".jsonl", ".csv", ".tsv")
"""Formats of tables, the preferred one first: of one folder only one is read."""
CARD: Final = "README.md"
SAVED: Final = "state.json"
SAVED_SPLITS: Final = "dataset_dict.json"
INFO: Final = "dataset_info.json"
SMALL: Final = frozenset({CARD, SAVED, SAVED_SPLITS, INFO})
"""Names of files that say which tables there are."""
WHOLE: Final = "train"
"""Split to which the hub counts files whose names say none."""
_KEYWORDS: Final = {
    "train": "train", "training": "train", "validation": "validation", "valid": "validation", "val": "validation",
    "dev": "validation", "test": "test", "testing": "test", "eval": "test", "evaluation": "test",
}  # fmt: skip
"""Words in names of files → the split that the hub gives them."""
_NUMBERED: Final = re.compile(r"(?P<split>.+?)-[0-9]{5}-of-[0-9]{5}(-[0-9a-f]+)?")
_HEAD: Final = re.compile(r"---\s*\n(.*?)\n---", re.DOTALL)
_T = TypeVar("_T")


class TableFolder(Protocol):
    """A folder, whose files are named relative to it, with slashes."""

    @property
    def name(self) -> str:
        """Its path, as errors name it."""

    def files(self) -> Sequence[str]:
        """Return the names of all files."""

    def matching(self, pattern: str) -> Sequence[str]:
        """Return the names of the files that a glob names, as `matches` does."""

    def has(self, name: str) -> bool:
        """Return whether there is such a file."""

    def text(self, name: str) -> str:
        """Return the text of a file of `SMALL`, which is there."""

    def card(self) -> object:
        """Return the document at the head of the card, `head_of_card`; None without one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenTables:
    """The tables of one split, in order."""

    names: tuple[str, ...]
    has_splits: bool
    """Whether the files were chosen by the split; if not, a column may name it."""
    info: str | None = None
    """The file beside them that has the names of classes."""


def choose_tables(folder: TableFolder, *, split: str | None, config: str | None, pattern: str | None) -> ChosenTables:
    """Choose the tables of a split.

    Args:
        folder: The folder.
        split: The split; may be None if there is only one.
        config: The subset of a repository of the hub that has several.
        pattern: Glob of the files, relative to the folder, in place of what the folder says.

    Raises:
        NotFound: there are no such files, split or config.
        InvalidInput: there are several, and none is named; or a file that says which there are is wrong.
    """
    if pattern is not None:
        return ChosenTables(names=_by_pattern(folder, pattern), has_splits=False)
    if folder.has(SAVED_SPLITS):
        names = _document(folder, SAVED_SPLITS).get("splits", [])
        name = _pick(split, {str(name): name for name in names}, "split", folder)
        return _saved(folder, f"{name}/", has_splits=True)
    if folder.has(SAVED):
        own = str(_document(folder, SAVED).get("_split") or "") or None
        if split is not None and own not in (None, split):
            raise NotFound(f"{folder.name} is the split {own!r}, not {split!r}.", cure=f"Write split: {own}.")
        return _saved(folder, "", has_splits=own is not None)
    splits = _splits_of_config(folder, config)
    names = _pick(split, splits, "split", folder)()
    return ChosenTables(names=tuple(names), has_splits=not (len(splits) == 1 and split not in splits))


def head_of_card(text: str) -> str | None:
    """Return the YAML at the head of a card; None without one."""
    match = _HEAD.match(text)
    return match[1] if match is not None else None


def matches(name: str, pattern: str) -> bool:
    """Return whether a glob names a file: `*` stays within a folder, `**` stands for any folders."""
    parts, places = name.split("/"), {0}
    for piece in _pieces(pattern):
        if piece == "**":
            places = set(range(min(places), len(parts)))
        else:
            places = {place + 1 for place in places if place < len(parts) and fnmatchcase(parts[place], piece)}
        if not places:
            return False
    return len(parts) in places


def in_order(names: Iterable[str]) -> list[str]:
    """Return names in the order of their folders: the order of rows, and so of keys, follows from it."""
    return sorted(names, key=lambda name: name.split("/"))


def _pieces(pattern: str) -> list[str]:
    pieces = [piece for piece in pattern.split("/") if piece not in ("", ".")]
    return [*pieces, "*"] if pieces[-1:] == ["**"] else pieces


def _by_pattern(folder: TableFolder, pattern: str) -> tuple[str, ...]:
    pieces = _pieces(pattern)
    if pattern.startswith("/") or ".." in pieces:
        raise InvalidInput(f"{pattern!r} leads out of {folder.name}.", cure="Name files inside of it.")
    if not pieces or any("**" in piece and piece != "**" for piece in pieces):
        cure = "Write `**` alone between slashes, as in data/**/*.parquet, or set params.files."
        raise InvalidInput(f"{pattern!r} is no glob of files of {folder.name}.", cure=cure)
    names = in_order(folder.matching("/".join(pieces)))
    if not names:
        raise NotFound(f"{folder.name} has no file {pattern!r}.", cure="Correct params.files.")
    return tuple(names)


def _saved(folder: TableFolder, inside: str, *, has_splits: bool) -> ChosenTables:
    """Return what `save_to_disk` wrote: the order of the files stands in its state."""
    state = f"{inside}{SAVED}"
    if not folder.has(state):
        raise NotFound(f"{folder.name}/{state} is missing.", cure="Save or copy the dataset again.")
    items = _document(folder, state).get("_data_files") or []
    names = tuple(inside + str(item.get("filename") if isinstance(item, Mapping) else item) for item in items)
    for name in names:
        if ".." in name.split("/") or not folder.has(name):
            message = f"{folder.name}/{name} is missing, which {folder.name}/{state} names."
            raise NotFound(message, cure="Save or copy the dataset again.")
    if not names:
        raise NotFound(f"{folder.name}/{state} names no files.", cure="Save the dataset again.")
    info = f"{inside}{INFO}"
    return ChosenTables(names=names, has_splits=has_splits, info=info if folder.has(info) else None)


def _splits_of_config(folder: TableFolder, config: str | None) -> Mapping[str, Callable[[], Sequence[str]]]:
    """Return split → what finds its files: as the card of the repository states them, or else by their names."""
    stated = _stated(folder)
    if stated:
        item = _pick(config, stated, "config", folder)
        inside = str(item.get("data_dir") or "").strip("/")
        if not item.get("data_files"):
            return _by_names(folder, inside)
        patterns = _patterns(item["data_files"], inside, folder)
        return {split: partial(_tables, folder, globs) for split, globs in patterns.items()}
    if config is not None:
        known = {name.split("/")[0] for name in folder.files() if "/" in name}
        if config not in known:
            raise NotFound(f"{folder.name} has no config {config!r}.", cure=did_you_mean(config, sorted(known)))
    return _by_names(folder, config or "")


def _stated(folder: TableFolder) -> dict[str, Mapping[str, Any]]:
    """Return config → what the card says of its files; empty where it says nothing."""
    document = folder.card()
    configs = document.get("configs") if isinstance(document, Mapping) else None
    return {
        str(item.get("config_name", "default")): item
        for item in (configs if isinstance(configs, list) else ())
        if isinstance(item, Mapping) and (item.get("data_files") or item.get("data_dir"))
    }


def _patterns(given: Any, inside: str, folder: TableFolder) -> dict[str, list[str]]:
    """Return split → globs of `data_files`: one or several globs, split → globs, or a list of these."""
    if isinstance(given, str) or (isinstance(given, list) and all(isinstance(item, str) for item in given)):
        given = {WHOLE: given}
    if isinstance(given, list):
        if not all(isinstance(item, Mapping) and "path" in item for item in given):
            message = f"data_files of the card of {folder.name} has an item without a path: {str(given)[:200]}."
            raise InvalidInput(message, cure="Correct the card, or set params.files.")
        given = {str(item.get("split", WHOLE)): item["path"] for item in given}
    if not isinstance(given, Mapping):
        message = f"data_files of the card of {folder.name} is neither a list nor a mapping: {str(given)[:200]}."
        raise InvalidInput(message, cure="Correct the card, or set params.files.")
    before = f"{inside}/" if inside else ""
    return {
        str(split): [before + str(path) for path in (paths if isinstance(paths, list) else [paths])]
        for split, paths in given.items()
    }


def _tables(folder: TableFolder, patterns: Sequence[str]) -> list[str]:
    """Return the tables that globs of a card name, which may also name images beside them."""
    names = [name for pattern in patterns for name in _by_pattern(folder, pattern)]
    for suffix in SUFFIXES:
        if found := [name for name in dict.fromkeys(names) if name.lower().endswith(suffix)]:
            return found
    return names


def _by_names(folder: TableFolder, inside: str) -> Mapping[str, Callable[[], Sequence[str]]]:
    """Return split → files of the preferred format, by the rules of the hub for names of files and folders.

    The first rule that any file keeps holds for all of them; the files that do not keep it belong to no split.
    """
    before = f"{inside}/" if inside else ""
    every = in_order(name.removeprefix(before) for name in folder.files() if name.startswith(before))
    every = [name for name in every if not any(part.startswith((".", "_")) for part in name.split("/"))]
    for suffix in SUFFIXES:
        names = [name for name in every if name.lower().endswith(suffix)]
        for rule in (_numbered, _of_folders, _of_file):
            splits: dict[str, list[str]] = {}
            for name in names:
                if (split := rule(name)) is not None:
                    splits.setdefault(split, []).append(before + name)
            if splits:
                return {split: partial(list, found) for split, found in splits.items()}
        if names:
            return {WHOLE: partial(list, [before + name for name in names])}
    unpack = next((how for name in every if (how := unpacking(name))), None)
    raise NotFound(
        f"{f'{folder.name}/{inside}'.rstrip('/')} has no table: none of its files ends with {', '.join(SUFFIXES)}.",
        cure=unpack or "Name the folder with the data, or the file.",
    )


def _numbered(name: str) -> str | None:
    """Return the split of `test-00000-of-00001`."""
    match = _NUMBERED.fullmatch(name.rpartition("/")[2].rpartition(".")[0])
    return match["split"] if match is not None else None


def _of_folders(name: str) -> str | None:
    """Return the split that a folder names, the innermost first."""
    return next((split for part in name.split("/")[-2::-1] if (split := _word(part)) is not None), None)


def _of_file(name: str) -> str | None:
    return _word(name.rpartition("/")[2].rpartition(".")[0])


def _word(text: str) -> str | None:
    words = re.split(r"[^a-z]+", text.lower())
    return next((_KEYWORDS[word] for word in words if word in _KEYWORDS), None)


def _pick(name: str | None, known: Mapping[str, _T], what: str, folder: TableFolder) -> _T:
    if name is not None and name in known:
        return known[name]
    if len(known) == 1 and (name is None or (what == "split" and set(known) == {WHOLE})):
        return next(iter(known.values()))  # a column may name the split where the files do not
    if not known:
        raise NotFound(f"{folder.name} has no {what}.", cure="Save or copy the dataset again.")
    if name is None:
        how = "split: NAME" if what == "split" else "params: {config: NAME}"
        message = f"{folder.name} has several {what}s: {', '.join(sorted(known))}."
        raise InvalidInput(message, cure=f"Name one: {how}.")
    raise NotFound(f"{folder.name} has no {what} {name!r}.", cure=did_you_mean(name, known))


def _document(folder: TableFolder, name: str) -> dict[str, Any]:
    try:
        document = json.loads(folder.text(name))
    except (OSError, ValueError, RecursionError) as error:
        raise InvalidInput(f"{folder.name}/{name} is no JSON.", cure="Save or copy the dataset again.") from error
    if not isinstance(document, dict):
        raise InvalidInput(f"{folder.name}/{name} is no JSON object.", cure="Save or copy the dataset again.")
    return document
