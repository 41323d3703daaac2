from __future__ import annotations

import io

import pytest
from PIL import Image

from vlmhyperbench_document_datasets.load import SyntheticLoad
from vlmhyperbench_sdk.discovery import load
from vlmhyperbench_sdk.errors import InvalidInput
from vlmhyperbench_sdk.protocols import DatasetSource


def _samples(seed: int = 0, **params: object) -> list[tuple[str, tuple[bytes, ...]]]:
    source = DatasetSource(seed=seed, params={"requests": 3, "prompt_tokens": 5, **params})  # type: ignore[dict-item] # wrong values too
    return [(sample.question, tuple(image.data or b"" for image in sample.images)) for sample in SyntheticLoad(source)]


def test_it_is_registered() -> None:
    assert load("datasets", "synthetic_load") is SyntheticLoad


def test_prompts_have_the_length_asked_for_and_each_is_different() -> None:
    samples = _samples()
    assert [len(question.split()) for question, _ in samples] == [5, 5, 5]
    assert len(set(samples)) == 3
    assert samples == _samples()
    assert samples != _samples(seed=1)


def test_images_have_the_size_asked_for_and_each_is_different() -> None:
    samples = _samples(images=2, image_size="70x40")
    images = [data for _, drawn in samples for data in drawn]
    assert len(set(images)) == 6
    assert {Image.open(io.BytesIO(data)).size for data in images} == {(70, 40)}
    assert samples == _samples(images=2, image_size="70x40")


@pytest.mark.parametrize(
    ("params", "name"),
    [
        ({"requests": 0}, "requests"),
        ({"prompt_tokens": "many"}, "prompt_tokens"),
        ({"images": 17}, "images"),
        ({"image_size": "big"}, "image_size"),
        ({"image_size": "0x4"}, "image_size"),
        ({"requests": 20_000, "images": 16}, "images"),
        ({"tokens": 3}, "tokens"),
    ],
)
def test_wrong_params_are_named(params: dict[str, object], name: str) -> None:
    with pytest.raises(InvalidInput, match=name):
        _samples(**params)
