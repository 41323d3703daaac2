"""Faces: every character differs from every other of its face, and fits into a cell."""

from __future__ import annotations

import sys

import pytest

from tests.support.wording import Wording
from vlmhyperbench_document_datasets import faces
from vlmhyperbench_document_datasets.faces import CHARACTERS, DEFAULT_FACE, OTHER_FACES, face
from vlmhyperbench_document_datasets.synthetic import SyntheticDocuments
from vlmhyperbench_sdk.errors import InvalidInput
from vlmhyperbench_sdk.protocols import DatasetSource


@pytest.mark.parametrize("name", [DEFAULT_FACE, *OTHER_FACES])
def test_the_characters_of_a_face_fit_into_a_cell_and_differ(name: str) -> None:
    typeface = face(name)
    assert typeface.width_px <= 8
    assert list(typeface.glyphs) == list(CHARACTERS)
    assert all(glyph.shape[0] <= 16 for glyph in typeface.glyphs.values())
    assert len({glyph.tobytes() for glyph in typeface.glyphs.values()}) == 38


def test_no_two_faces_are_the_same() -> None:
    drawn = {tuple(glyph.tobytes() for glyph in face(name).glyphs.values()) for name in (DEFAULT_FACE, *OTHER_FACES)}
    assert len(drawn) == 9


def test_the_tier_fonts_says_at_once_which_package_it_needs(monkeypatch: pytest.MonkeyPatch, wording: Wording) -> None:
    monkeypatch.setitem(sys.modules, "pyfiglet", None)
    face.cache_clear()
    with pytest.raises(InvalidInput) as refused:
        SyntheticDocuments(DatasetSource(params={"tier": "fonts"}))
    wording(refused.value)


def test_a_face_with_other_characters_is_refused(monkeypatch: pytest.MonkeyPatch, wording: Wording) -> None:
    glyphs = dict(face(DEFAULT_FACE).glyphs)
    monkeypatch.setattr(faces, "_of_pillow", lambda: glyphs | {"A": glyphs["B"]})
    face.cache_clear()
    with pytest.raises(InvalidInput) as refused:
        face(DEFAULT_FACE)
    wording(refused.value)
    face.cache_clear()
