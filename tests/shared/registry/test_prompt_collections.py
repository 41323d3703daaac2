"""Collections of prompts: four formats with one meaning, a version by hash, and errors at their lines."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.shared.registry.writing import Shelf, load
from vlmhyperbench.domain.prompts import render
from vlmhyperbench.domain.specs import PromptSpec, PromptText
from vlmhyperbench.errors import InvalidInput, NotFound
from vlmhyperbench.registry.catalogue import Catalogue
from vlmhyperbench.registry.errors import RegistryErrors
from vlmhyperbench.registry.prompt_collections import read_collection
from vlmhyperbench.registry.resolution import resolve_run
from vlmhyperbench.registry.schemas import RunEntry

WRITTEN = {
    "bom.csv": b"\xef\xbb\xbfprompt;doc_class_question_type\r\nRead it.;receipt total\r\n{{ question }};default\r\n",
    "comma.csv": b"doc_class_question_type,prompt\nreceipt total,Read it.\n,{{ question }}\n",
    "a.json": b'{"receipt total": "Read it.", "default": {"user_prompt": "{{ question }}"}}',
    "a.yaml": b"receipt total: Read it.\ndefault: '{{ question }}'\n",
}


def _file(folder: Path, name: str, content: bytes) -> Path:
    file = folder / name
    file.write_bytes(content)
    return file


@pytest.mark.parametrize("name", WRITTEN)
def test_every_format_has_templates_by_type_and_a_default(tmp_path: Path, name: str) -> None:
    collection = read_collection(_file(tmp_path, name, WRITTEN[name]))
    assert collection.texts == {"receipt total": PromptText(user_prompt="Read it.")}
    assert collection.default == PromptText(user_prompt="{{ question }}")


def test_a_text_file_is_one_prompt_for_all_and_its_hash_changes_with_it(tmp_path: Path) -> None:
    first, second = (read_collection(_file(tmp_path, "a.txt", text)) for text in (b"Read it.\n", b"Read it!\n"))
    assert (first.texts, first.default) == ({}, PromptText(user_prompt="Read it."))
    assert first.sha256 != second.sha256


@pytest.mark.parametrize(
    ("name", "content", "location", "cure"),
    [
        ("a.csv", b"prompt;doc_class_question_type\nRead;a\n\xd7\xe8;b\n", ":3:", "UTF-8"),
        ("a.csv", "prompt;doc_class_question_type\nRead;a\n".encode("utf-16-le"), ":1:", "UTF-8"),
        ("a.csv", b"prompts;doc_class_question_type\nRead;a\n", ":1:", "Did you mean prompts?"),
        ("a.csv", b"prompt;doc_class_question_type\nRead;it;a\n", ":2:", "quotes"),
        ("a.csv", b'prompt;doc_class_question_type\n"Read;a\n', ":2:", "quotes"),
        ("a.csv", b"prompt;doc_class_question_type\nRead;a\nAgain;a\n", ":3:", "Remove"),
        ("a.csv", b"prompt;doc_class_question_type\n ;a\n", ":2:", "Write it"),
        ("a.csv", b"prompt;doc_class_question_type\n", "", "Add one"),
        ("a.txt", b"", "", "Write it"),
        ("a.json", b'{"a": "Read",\n"a": "Again"}', "", "Remove"),
        ("a.json", b'{"a": \n}', ":2:", "Correct the line"),
        ("a.json", b'["Read"]', "", "Write"),
        ("a.json", b'{"a": {"user_promt": "Read"}}', "", "Did you mean user_prompt"),
        ("a.yaml", b"a: Read\nb: [1]\n", "", "Write text"),
        ("a.yaml", b"a: Read\na: Again\n", ":2:", "Remove"),
        ("a.xlsx", b"", "", ".csv"),
    ],
)
def test_what_is_wrong_is_named_with_its_line_and_cure(
    tmp_path: Path, name: str, content: bytes, location: str, cure: str
) -> None:
    with pytest.raises(InvalidInput) as raised:
        read_collection(_file(tmp_path, name, content))
    assert f"{name}{location}" in raised.value.message
    assert cure in raised.value.cure


def test_a_missing_file_names_a_similar_one(tmp_path: Path) -> None:
    _file(tmp_path, "receipts.csv", WRITTEN["comma.csv"])
    with pytest.raises(NotFound) as raised:
        read_collection(tmp_path / "receipt.csv")
    assert raised.value.cure == "Did you mean receipts.csv?"


def _catalogue(folder: Path, entry: str, csv: bytes = WRITTEN["comma.csv"]) -> Catalogue:
    (folder / "prompts" / "lists").mkdir(parents=True)
    (folder / "prompts" / "lists" / "a.csv").write_bytes(csv)
    return load(folder, {"prompts/p.yaml": entry})


def test_a_run_pins_the_templates_with_the_hash_of_their_file(tmp_path: Path) -> None:
    catalogue = _catalogue(tmp_path, "collection: prompts/lists/a.csv\n")
    prompt = resolve_run(catalogue, RunEntry.model_validate({"target": {"model": "m"}, "task": "t"}), plugins=Shelf())
    assert isinstance(prompt.prompt, PromptSpec)
    assert prompt.prompt.type_mapping["receipt total"].user_prompt == "Read it."
    assert prompt.prompt.collection is not None
    assert (prompt.prompt.collection.path, prompt.prompt.collection.has_default) == ("prompts/lists/a.csv", True)


@pytest.mark.parametrize(
    ("entry", "csv", "field"),
    [
        ("collection: prompts/lists/b.csv\n", b"", "collection"),
        ("collection: prompts/lists/a.csv\nuser_prompt: x\n", WRITTEN["comma.csv"], "collection"),
        ("collection: prompts/lists/a.csv\ntype_mapping: {a: {user_prompt: x}}\n", WRITTEN["comma.csv"], ""),
        ("collection: prompts/lists/a.csv\n", b"prompt,doc_class_question_type\n{% for a in b %},a\n", "collection.a"),
        (
            "collection: prompts/lists/a.csv\n",
            b"prompt,doc_class_question_type\n{{ a }},default\n",
            "collection.default",
        ),
    ],
)
def test_an_entry_whose_collection_is_wrong_is_refused(tmp_path: Path, entry: str, csv: bytes, field: str) -> None:
    with pytest.raises(RegistryErrors) as raised:
        _catalogue(tmp_path, entry, csv)
    [error] = raised.value.errors
    assert error.field.startswith(field)
    assert error.cure


def _prompt(texts: dict[str, str], *, has_default: bool = True, **fields: str) -> PromptSpec:
    mapping = {name: {"user_prompt": text} for name, text in texts.items()}
    collection = {"path": "a.csv", "sha256": "a" * 64, "has_default": has_default}
    return PromptSpec.model_validate(
        {"name": "p", "version": "1.0.0", "type_mapping": mapping, "collection": collection, **fields}
    )


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        ({"doc_class": "receipt", "question_type": "total"}, "narrow"),
        ({"doc_class": "receipt", "question_type": "date"}, "class"),
        ({"doc_type": "slip", "doc_class": "receipt", "question_type": "total"}, "narrow"),
        ({"doc_class": "invoice", "question_type": "total"}, "default"),
        ({}, "default"),
    ],
)
def test_the_narrowest_type_wins(metadata: dict[str, str], expected: str) -> None:
    spec = _prompt({"receipt total": "narrow", "receipt": "class"}, user_prompt="default")
    assert render(spec, question="q", metadata=metadata).user == expected
    fixed = spec.model_copy(update={"fixed_prompt": "fixed"})
    assert render(fixed, question="q", metadata=metadata).user == "fixed"


def test_a_sample_without_a_prompt_in_the_collection_is_refused_and_not_asked_something_else() -> None:
    spec = _prompt({"receipt total": "x"}, has_default=False)
    with pytest.raises(InvalidInput) as raised:
        render(spec, question="q", metadata={"doc_class": "receipt", "question_type": "totals"})
    assert (raised.value.code, raised.value.cure.partition("?")[0]) == ("prompt", "Did you mean receipt total")
    with pytest.raises(InvalidInput):
        render(spec, question="q", metadata={})
