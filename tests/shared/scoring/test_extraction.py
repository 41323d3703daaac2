"""Extraction is named and versioned."""

from __future__ import annotations

import pytest

from vlmhyperbench.scoring.extraction import DEFAULT_EXTRACTOR, extract
from vlmhyperbench_sdk.errors import NotFound


def test_text_at_1_is_the_answer_as_it_is() -> None:
    assert DEFAULT_EXTRACTOR == "text@1"
    assert extract([" Berlin\n", ""]) == [" Berlin\n", ""]


def test_an_unknown_extractor_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(NotFound, match=r"no extractor 'text@2'. Write one of: text@1"):
        extract(["a"], extractor="text@2")
    with pytest.raises(NotFound, match="text@1"):
        extract(["a"], extractor="zzz")
