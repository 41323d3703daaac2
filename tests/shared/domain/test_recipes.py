"""Recipes: their key is that of what goes in, and each cached file has one location."""

from __future__ import annotations

import pytest

from vlmhyperbench.domain.cached_files import CachedFile, is_version, parse_cached_location
from vlmhyperbench.domain.recipes import QUANTIZER, ModelFile, RecipeSpec

VERSION = "a" * 40
SOURCE = ModelFile(role="weights", location="/models/m.gguf", sha256="0" * 64)
RECIPE = RecipeSpec(source="m", sources=(SOURCE,), quantize="Q8_0", quantizer=QUANTIZER)


@pytest.mark.parametrize("repo", ["org/name", "s3://bucket/prefix", "made"])
def test_a_location_is_read_again_as_it_was(repo: str) -> None:
    file = CachedFile(repo, VERSION, "model.safetensors")
    assert parse_cached_location(file.location) == file


def test_a_path_is_no_cached_file() -> None:
    assert parse_cached_location("/models/m.gguf") is None
    assert (is_version(VERSION), is_version("main")) == (True, False)


def test_a_key_depends_on_content_tools_and_parameters_and_on_no_path() -> None:
    moved = SOURCE.model_copy(update={"location": "/elsewhere/m.gguf"})
    changed = SOURCE.model_copy(update={"sha256": "1" * 64})
    assert RECIPE.model_copy(update={"sources": (moved,)}).key == RECIPE.key
    older = QUANTIZER.model_copy(update={"requirements": ("cyllama==0.2.17",)})
    keys = {
        RECIPE.key,
        RECIPE.model_copy(update={"sources": (changed,)}).key,
        RECIPE.model_copy(update={"quantize": "Q4_0"}).key,
        RECIPE.model_copy(update={"quantizer": older}).key,
    }
    assert len(keys) == 4
    assert RECIPE.made("weights") == CachedFile("made", RECIPE.key, "weights.gguf")
