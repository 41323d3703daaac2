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


def test_each_prompt_may_have_a_length_of_its_own_or_all_the_same_text() -> None:
    assert [len(question.split()) for question, _ in _samples(prompt_tokens=[2, 7, 1])] == [2, 7, 1]
    assert [question for question, _ in _samples(prompt="Say hello.")] == ["Say hello."] * 3


def test_images_have_random_sizes_of_a_list_and_are_reused_by_their_share() -> None:
    drawn = [data for _, images in _samples(requests=40, images=1, image_size="30x20, 20x30") for data in images]
    assert {Image.open(io.BytesIO(data)).size for data in drawn} == {(30, 20), (20, 30)}
    assert len(set(drawn)) == 40
    reused = [data for _, images in _samples(requests=40, images=1, image_reuse=0.5) for data in images]
    assert 8 < len(set(reused)) < 32
    assert len({images for _, images in _samples(requests=5, images=2, image_reuse=1)}) == 1


def test_the_prompts_of_a_conversation_have_its_images() -> None:
    drawn = [images for _, images in _samples(requests=6, images=2, turns=3)]
    assert drawn[0] == drawn[2] != drawn[3] == drawn[5]


@pytest.mark.parametrize(
    ("params", "name"),
    [
        ({"requests": 0}, "requests"),
        ({"prompt_tokens": "many"}, "prompt_tokens"),
        ({"images": 17}, "images"),
        ({"image_size": "big"}, "image_size"),
        ({"image_size": "0x4"}, "image_size"),
        ({"image_size": "4x4,big"}, "image_size"),
        ({"image_reuse": 2}, "image_reuse"),
        ({"prompt": ""}, "prompt"),
        ({"prompt_tokens": [1, 2]}, "prompt_tokens"),
        ({"prompt_tokens": [1, 0, 2]}, "prompt_tokens"),
        ({"requests": 20_000, "images": 16}, "images"),
        ({"tokens": 3}, "tokens"),
        ({"turns": 0}, "turns"),
    ],
)
def test_wrong_params_are_named(params: dict[str, object], name: str) -> None:
    with pytest.raises(InvalidInput, match=name):
        _samples(**params)
