"""Strict YAML: what is read, where it was written, and everything that is refused."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.wording import Wording
from vlmhyperbench.registry.documents import MAX_BYTES, Document, parse_document, read_document
from vlmhyperbench.registry.errors import SourceLocation


def _value(text: str) -> object:
    document, errors = parse_document(text, "f.yaml")
    assert not errors
    assert document is not None
    return document.value


def _error(text: str) -> str:
    document, errors = parse_document(text, "f.yaml")
    assert document is None
    assert len(errors) == 1
    return str(errors[0])


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a: 1", 1),
        ("a: -7", -7),
        ("a: 1.5", 1.5),
        ("a: .5", 0.5),
        ("a: 1e3", 1000.0),
        ("a: true", True),
        ("a: False", False),
        ("a: ~", None),
        ("a:", None),
        ("a: null", None),
        ("a: no", "no"),
        ("a: yes", "yes"),
        ("a: 2026-01-01", "2026-01-01"),
        ("a: 12:30", "12:30"),
        ("a: 0x10", "0x10"),
        ("a: '1'", "1"),
        ('a: "true"', "true"),
        ("a: |\n  1\n  2\n", "1\n2\n"),
        ("a: [1, {b: c}]", [1, {"b": "c"}]),
        ("a: {}", {}),
        ("a: 1.0.0", "1.0.0"),
    ],
)
def test_plain_values_mean_what_yaml_1_2_says(text: str, value: object) -> None:
    assert _value(text) == {"a": value}


def test_every_value_knows_its_line() -> None:
    document, _ = parse_document("a: 1\nb:\n  - x\n  - c: y\n", "f.yaml")
    assert document is not None
    assert document.location_of(("a",)) == SourceLocation("f.yaml", 1)
    assert document.location_of(("b", 1, "c")) == SourceLocation("f.yaml", 4)
    assert document.location_of(("b", 7, "c", "d")) == SourceLocation("f.yaml", 2)
    assert document.location_of(("nowhere",)) == SourceLocation("f.yaml", 1)


def test_a_document_without_places_has_none() -> None:
    with pytest.raises(KeyError):
        Document({}).location_of(("a",))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# only a comment\n",
        "- 1\n- 2\n",
        "just text",
        "a: 1\nb: [",
        "a: 1\n\tb: 2",
        "a: \x07",
        "a: 1\nb: 2\na: 3",
        "a:\n  b: 1\n  b: 2",
        "a: &x 1\nb: *x",
        "a: !!python/object/apply:os.system [id]",
        "a: !!set {x}",
        "a: !!binary aGk=",
        "a: 1\n---\nb: 2",
        "a: " + "[" * 40 + "]" * 40,
        "a: " + "[" * 100000,
        "a: .nan",
        "a: -.inf",
        "a: 1e999",
        "a: " + "9" * 5000,
        "a: 9223372036854775808",
        "1: a",
        "true: a",
        "[1]: a",
        "a:\n  <<: {b: 1}",
        'a: "\\0"',
        'a: "\\ud800"',
        '"\\ud800": a',
    ],
)
def test_what_is_not_plain_data_is_refused_with_its_line(text: str, wording: Wording) -> None:
    wording(_error(text))


def test_every_error_of_a_file_is_reported_at_once() -> None:
    _, errors = parse_document("a: .nan\nb: 1\nb: 2\n1: x\n", "f.yaml")
    assert [error.line for error in errors] == [1, 3, 4]


def test_entities_that_would_explode_never_do() -> None:
    bomb = "a: &a [x, x]\n" + "\n".join(f"{c}: &{c} [*{p}, *{p}]" for p, c in zip("abcdefgh", "bcdefghi", strict=True))
    assert "aliases" in _error(bomb)


@given(st.text())
def test_any_text_is_either_read_or_refused(text: str) -> None:
    document, errors = parse_document(text, "f.yaml")
    assert (document is None) == bool(errors)


def test_the_error_of_a_file_that_cannot_be_read_has_the_reason(tmp_path: Path, wording: Wording) -> None:
    os.mkfifo(tmp_path / "pipe.yaml")
    (tmp_path / "folder.yaml").mkdir()
    (tmp_path / "large.yaml").write_bytes(b"a: " + b"x" * MAX_BYTES)
    (tmp_path / "latin.yaml").write_bytes("a: 1\nb: é".encode("latin-1"))
    (tmp_path / "long.yaml").symlink_to("x" * 200)
    for path in (*sorted(tmp_path.iterdir()), Path("/proc/self/mem")):
        document, [error] = read_document(path, "shown")
        assert document is None
        assert error.cure
        wording(f"{path.name}: {error}")


def test_a_byte_order_mark_does_no_harm(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_bytes("a: é".encode("utf-8-sig"))
    document, errors = read_document(tmp_path / "a.yaml", "a.yaml")
    assert not errors
    assert document is not None
    assert document.value == {"a": "é"}
