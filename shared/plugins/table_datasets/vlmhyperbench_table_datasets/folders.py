"""Which files of a folder are a split: a folder that `datasets` saved, or one that is laid out as on the hub."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from vlmhyperbench_sdk.compressed import unpacking
from vlmhyperbench_sdk.errors import InvalidInput, NotFound
from vlmhyperbench_sdk.suggestions import did_you_mean
from vlmhyperbench_table_datasets.parquet_rows import labels_of

SUFFIXES: Final = (".parquet", ".arrow", ".jsonl", ".csv", ".tsv")
"""Formats of tables, the preferred one first."""
SAVED: Final = "state.json"
SAVED_SPLITS: Final = "dataset_dict.json"
INFO: Final = "dataset_info.json"
WHOLE: Final = "train"
"""Split to which the hub counts files whose names say none."""
_KEYWORDS: Final = {
    "train": "train", "training": "train", "validation": "validation", "valid": "validation", "val": "validation",
    "dev": "validation", "test": "test", "testing": "test", "eval": "test", "evaluation": "test",
}  # fmt: skip
"""Words in names of files → the split that the hub gives them."""
_NUMBERED: Final = re.compile(r"(?P<split>.+?)-[0-9]{5}-of-[0-9]{5}(-[0-9a-f]+)?")
_CARD: Final = re.compile(r"---\s*\n(.*?)\n---", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """The files of one split, in order."""

    files: tuple[Path, ...]
    labels: Mapping[str, Sequence[str]]
    """Names of classes that stand beside the files, and not in them."""
    has_splits: bool
    """Whether the files were chosen by the split; if not, a column may name it."""


def choose_files(folder: Path, *, split: str | None, config: str | None, pattern: str | None) -> Chosen:
    """Choose the files of a split.

    Args:
        folder: The folder.
        split: The split; may be None if there is only one.
        config: The subset of a repository of the hub that has several.
        pattern: Glob of the files, relative to the folder, in place of what the folder says.

    Raises:
        NotFound: there are no such files, split or config.
        InvalidInput: there are several, and none is named.
    """
    if pattern is not None:
        return _by_pattern(folder, pattern)
    if (folder / SAVED_SPLITS).is_file():
        names = _document(folder / SAVED_SPLITS).get("splits", [])
        name = _pick(split, {str(name): name for name in names}, "split", folder)
        return _saved(folder / str(name), has_splits=True)
    if (folder / SAVED).is_file():
        own = str(_document(folder / SAVED).get("_split") or "") or None
        if split is not None and own not in (None, split):
            raise NotFound(f"{folder} is the split {own!r}, not {split!r}.", cure=f"Write split: {own}.")
        return _saved(folder, has_splits=own is not None)
    splits = _splits_of_config(folder, config)
    files = _pick(split, splits, "split", folder)
    return Chosen(files=tuple(files), labels={}, has_splits=not (len(splits) == 1 and split not in splits))


def _by_pattern(folder: Path, pattern: str) -> Chosen:
    if Path(pattern).is_absolute() or ".." in Path(pattern).parts:
        raise InvalidInput(f"params.files: {pattern!r} leads out of the folder.", cure="Name files inside of it.")
    files = tuple(sorted(path for path in folder.glob(pattern) if path.is_file()))
    if not files:
        raise NotFound(f"{folder} has no file {pattern!r}.", cure="Correct params.files.")
    return Chosen(files=files, labels={}, has_splits=False)


def _saved(folder: Path, *, has_splits: bool) -> Chosen:
    """Return what `save_to_disk` wrote: the order of the files stands in its state."""
    state = _document(folder / SAVED)
    files = tuple(folder / str(item["filename"]) for item in state.get("_data_files", []))
    for file in files:
        if not file.is_file():
            raise NotFound(f"{file} is missing, which {folder / SAVED} names.", cure="Save or copy the dataset again.")
    if not files:
        raise NotFound(f"{folder / SAVED} names no files.", cure="Save the dataset again.")
    info = folder / INFO
    labels = labels_of(info.read_text(encoding="utf-8")) if info.is_file() else {}
    return Chosen(files=files, labels=labels, has_splits=has_splits)


def _splits_of_config(folder: Path, config: str | None) -> dict[str, list[Path]]:
    """Return split → files: as the card of the repository states them, or else by their names."""
    stated = _stated(folder)
    if stated:
        data_files = _pick(config, stated, "config", folder)
        return dict(_expanded(folder, data_files))
    if config is not None:
        if not (folder / config).is_dir():
            known = [path.name for path in folder.iterdir() if path.is_dir()]
            raise NotFound(f"{folder} has no config {config!r}.", cure=did_you_mean(config, known))
        folder = folder / config
    return _by_names(folder)


def _stated(folder: Path) -> dict[str, Any]:
    """Return config → `data_files` of the card README.md; empty without."""
    card = folder / "README.md"
    match = _CARD.match(card.read_text(encoding="utf-8", errors="replace")) if card.is_file() else None
    if match is None:
        return {}
    try:
        document = yaml.safe_load(match[1])
    except yaml.YAMLError as error:
        raise InvalidInput(
            f"The head of {card} is no YAML: {error}.", cure="Correct it, or set params.files."
        ) from error
    configs = document.get("configs", []) if isinstance(document, dict) else []
    return {
        str(item.get("config_name", "default")): item["data_files"]
        for item in configs
        if isinstance(item, dict) and item.get("data_files")
    }


def _expanded(folder: Path, data_files: Any) -> Iterator[tuple[str, list[Path]]]:
    if isinstance(data_files, str) or (isinstance(data_files, list) and all(isinstance(x, str) for x in data_files)):
        data_files = [{"split": WHOLE, "path": data_files}]
    if isinstance(data_files, dict):
        data_files = [{"split": split, "path": path} for split, path in data_files.items()]
    for item in data_files:
        patterns = item["path"] if isinstance(item["path"], list) else [item["path"]]
        files = [file for pattern in patterns for file in _by_pattern(folder, str(pattern)).files]
        yield str(item.get("split", WHOLE)), files


def _by_names(folder: Path) -> dict[str, list[Path]]:
    """Return split → files of the preferred format, by the rules of the hub for names of files and folders."""
    every = sorted(path for path in folder.rglob("*") if path.is_file() and not _is_hidden(path, folder))
    for suffix in SUFFIXES:
        files = [path for path in every if path.suffix.lower() == suffix]
        if files:
            splits: dict[str, list[Path]] = {}
            for path in files:
                splits.setdefault(_split_of(path.relative_to(folder)), []).append(path)
            return splits
    unpack = next((how for path in every if (how := unpacking(path.name))), None)
    raise NotFound(
        f"{folder} has no table: none of its files ends with {', '.join(SUFFIXES)}.",
        cure=unpack or "Name the folder with the data, or the file.",
    )


def _is_hidden(path: Path, folder: Path) -> bool:
    return any(part.startswith((".", "_")) for part in path.relative_to(folder).parts)


def _split_of(path: Path) -> str:
    """Return the split of a file: of `test-00000-of-00001`, of a word such as `test` in its name, or of its folder."""
    numbered = _NUMBERED.fullmatch(path.stem)
    if numbered is not None:
        return numbered["split"]
    for part in (path.stem, *reversed(path.parts[:-1])):
        for word in re.split(r"[^a-z]+", part.lower()):
            if word in _KEYWORDS:
                return _KEYWORDS[word]
    return WHOLE


def _pick(name: str | None, known: Mapping[str, Any], what: str, folder: Path) -> Any:
    if name is not None and name in known:
        return known[name]
    if len(known) == 1 and (name is None or (what == "split" and set(known) == {WHOLE})):
        return next(iter(known.values()))  # a column may name the split where the files do not
    if not known:
        raise NotFound(f"{folder} has no {what}.", cure="Save or copy the dataset again.")
    if name is None:
        how = "split: NAME" if what == "split" else "params: {config: NAME}"
        message = f"{folder} has several {what}s: {', '.join(sorted(known))}."
        raise InvalidInput(message, cure=f"Name one: {how}.")
    raise NotFound(f"{folder} has no {what} {name!r}.", cure=did_you_mean(name, known))


def _document(file: Path) -> dict[str, Any]:
    try:
        document = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InvalidInput(f"{file} is no JSON.", cure="Save or copy the dataset again.") from error
    if not isinstance(document, dict):
        raise InvalidInput(f"{file} is no JSON object.", cure="Save or copy the dataset again.")
    return document
