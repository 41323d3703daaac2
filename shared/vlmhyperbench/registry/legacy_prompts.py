"""Compile the prompts of a row of `user_config.csv`: a system prompt, and a collection with a prompt for each pair."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pydantic import JsonValue

from vlmhyperbench.errors import InvalidInput, NotFound
from vlmhyperbench.registry.errors import RegistryError
from vlmhyperbench.registry.legacy_tables import PROMPT_COLUMNS, LegacyRow, is_file, read_rows
from vlmhyperbench.registry.prompt_collections import read_collection

SYSTEM: Final = ("", "system_prompts", "data_dirs/system_prompts", "data_dirs/SystemPrompts")
COLLECTIONS: Final = ("", "prompt_collections", "data_dirs/prompt_collections", "data_dirs/PromptCollections")
"""Folders in which the files are searched, relative to that of `user_config.csv`."""
QUESTION: Final = "{{ question }}"
_PAIR: Final = 'metadata.doc_class | default("") ~ " " ~ metadata.question_type | default("")'


def prompt_values(
    row: LegacyRow, folder: Path, errors: list[RegistryError], warnings: list[str]
) -> dict[str, JsonValue]:
    """Return the values of the prompt entry of a row; what is wrong with its files is added to the errors."""
    system, collection = row.text("system_prompt"), row.text("prompt_collection")
    named = " and ".join(name for name in (collection, system) if name)[:200]
    values: dict[str, JsonValue] = {"description": f"Compiled from {named}."}
    if system:
        values["system_prompt"] = _literal(row, "system_prompt", _system_text(row, folder, errors), errors)
    if collection:
        file = _found(folder, COLLECTIONS, collection)
        if file is None:
            message, cure = f"There is no file {collection}.", f"Put it into {folder}, or correct its name."
            errors.append(row.error("prompt_collection", message, cure))
        else:
            values |= _by_pair(file, errors, warnings)
    return values


def _system_text(row: LegacyRow, folder: Path, errors: list[RegistryError]) -> str:
    """Return the text of a file, or the cell itself where it names none."""
    name = row.text("system_prompt")
    file = _found(folder, SYSTEM, name)
    if file is not None:
        try:
            return file.read_text(encoding="utf-8-sig").strip()
        except (OSError, UnicodeDecodeError) as error:
            errors.append(row.error("system_prompt", f"{file} cannot be read: {error}.", "Save it as UTF-8."))
    elif name.lower().endswith(".txt"):
        message, cure = f"There is no file {name}.", f"Put it into {folder}, or correct its name."
        errors.append(row.error("system_prompt", message, cure))
    return name


def _by_pair(file: Path, errors: list[RegistryError], warnings: list[str]) -> dict[str, JsonValue]:
    """Return the prompts by document class and question type; a sample of another pair is asked its question.

    They are the collection itself, pinned by its hash, where that gives the same prompts. Otherwise (a prompt has marks
    of templates, or a type would apply to more than one pair) they are a template that chooses.
    """
    branches: dict[str, str] = {}
    for row in read_rows(file, PROMPT_COLUMNS, PROMPT_COLUMNS, errors, warnings):
        pair = row.text("doc_class_question_type")
        if pair in branches:
            message = f"{pair!r} comes twice."
            errors.append(row.error("doc_class_question_type", message, "Remove one of the two rows."))
        if '"' in pair or "\\" in pair:
            message = f"{pair!r} has a quote or a backslash."
            errors.append(row.error("doc_class_question_type", message, "Rename the class or the type."))
        branches[pair] = _literal(row, "prompt", row.text("prompt"), errors)
    if _is_same_collection(file, branches):
        return {"collection": str(file.resolve()), "user_prompt": QUESTION}
    if not branches:
        return {"user_prompt": QUESTION}
    tests = [
        f'{{% {"elif" if no else "if"} {_PAIR} == "{pair}" %}}{text}'
        for no, (pair, text) in enumerate(branches.items())
    ]
    return {"user_prompt": "".join([*tests, f"{{% else %}}{QUESTION}{{% endif %}}"])}


def _is_same_collection(file: Path, branches: Mapping[str, str]) -> bool:
    """Return whether the file, read as a collection, has these prompts for these pairs, and for nothing else."""
    try:
        collection = read_collection(file)
    except (InvalidInput, NotFound):  # `read_rows` has named what is wrong, or takes what a collection does not
        return False
    texts = {pair: text.user_prompt for pair, text in collection.texts.items()}
    are_pairs = all(" " in pair and "{% raw %}" not in text for pair, text in branches.items())
    return collection.default is None and are_pairs and texts == dict(branches)


def _literal(row: LegacyRow, column: str, text: str, errors: list[RegistryError]) -> str:
    """Return a text as a template that renders to it."""
    if not any(mark in text for mark in ("{{", "{%", "{#")):
        return text
    if "endraw" in text:
        errors.append(row.error(column, "A prompt with the word endraw cannot be compiled.", "Write it as an entry."))
    return f"{{% raw %}}{text}{{% endraw %}}"


def _found(folder: Path, places: tuple[str, ...], name: str) -> Path | None:
    return next((path for place in places if is_file(path := folder / place / name)), None)
