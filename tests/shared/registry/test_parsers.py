"""YAML is read by the parser in C, and explained by the one in Python: both must read the same."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vlmhyperbench.registry import documents
from vlmhyperbench.registry.documents import Document, parse_document
from vlmhyperbench.registry.errors import RegistryError

ROOT = Path(__file__).parents[3] / "registries"
TEXTS = st.lists(
    st.sampled_from(
        ["a: ", "b:", "\n", "  ", "- ", "'", '"', "x", "1", "~", "#", "|", ">", "[", "]", "{", "}", ", ", "é"]
    ),
    max_size=14,
).map("".join)


def in_python(text: str, monkeypatch: pytest.MonkeyPatch) -> tuple[Document | None, list[RegistryError]]:
    with monkeypatch.context() as patch:
        patch.setattr(documents, "_FastLoader", documents._Loader)
        return parse_document(text, "f.yaml")


def test_every_shipped_file_is_the_same_to_both(monkeypatch: pytest.MonkeyPatch) -> None:
    files = sorted(ROOT.glob("*/*.yaml"))
    assert len(files) > 100
    for file in files:
        text = file.read_text("utf-8")
        assert parse_document(text, "f.yaml") == in_python(text, monkeypatch), file


@given(TEXTS)
def test_what_both_can_read_has_the_same_values_at_the_same_lines(text: str) -> None:
    with pytest.MonkeyPatch.context() as monkeypatch:
        slow = in_python(text, monkeypatch)
    fast = parse_document(text, "f.yaml")
    if fast[0] is not None and slow[0] is not None:
        assert fast == slow
