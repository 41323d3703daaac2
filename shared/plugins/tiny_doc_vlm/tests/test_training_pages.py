"""Training pages are the dataset's own, under names that it never gives, and every label is what is printed there."""

from __future__ import annotations

import json
import random

import numpy as np
import pytest
from scipy.ndimage import maximum_filter
from sklearn.datasets import load_digits
from training import vocabulary
from training.drawing import CLASSES, UNKNOWN, cut_tiles, draw_digit, draw_page

import vlmhyperbench_tiny_doc_vlm as tiny
from vlmhyperbench_document_datasets.digits import inks_and_labels
from vlmhyperbench_document_datasets.faces import CHARACTERS
from vlmhyperbench_document_datasets.synthetic import SyntheticDocuments
from vlmhyperbench_document_datasets.tiers import TIERS, draw, make_document
from vlmhyperbench_sdk.protocols import DatasetSource


def _printed(characters: np.ndarray) -> str:
    """Return the named characters of two tiles, row by row, blanks left out."""
    # A line's words stand in the upper or the lower quarters.
    columns = characters.reshape(2, 6, 6, 2, 2, 2).transpose(1, 0, 2, 4, 3, 5)
    return "".join(CHARACTERS[number - 1] for number in columns.flatten() if number > 0)


def test_the_vocabulary_is_the_one_of_the_models_tokenizer() -> None:
    known = json.loads(tiny.path("tokenizer.json").read_text(encoding="utf-8"))["model"]["vocab"]
    assert known == {token: number for number, token in enumerate(vocabulary.tokens())}


def test_a_text_is_one_token_a_byte_and_an_empty_line_is_refused() -> None:
    names = vocabulary.tokens()
    assert [names[number] for number in vocabulary.encode("A 1\n")] == ["A", "Ġ", "1", "Ċ"]
    with pytest.raises(ValueError, match="empty line"):
        vocabulary.encode("A\n\nB")


def test_two_tiles_stand_under_their_places_before_an_empty_line_and_the_overview() -> None:
    names = vocabulary.tokens()
    text = "".join(names[number] for number in vocabulary.image_tokens(1, 2)).replace("<image>" * 36, "[36]")
    fake = "<fake_token_around_image>"
    assert text == f"{fake}<row_1_col_1>[36]{fake}<row_1_col_2>[36]ĊĊ{fake}<global-img>[36]{fake}"


def test_four_tiles_have_a_line_end_between_their_rows() -> None:
    names = [vocabulary.tokens()[number] for number in vocabulary.image_tokens(2, 2)]
    assert names.count("<image>") == 5 * 36
    assert [name for name in names if name.startswith(("<row", "Ċ"))] == [
        *("<row_1_col_1>", "<row_1_col_2>", "Ċ", "<row_2_col_1>", "<row_2_col_2>", "ĊĊ")
    ]


@pytest.mark.parametrize("tier", TIERS)
def test_a_training_page_is_what_the_tier_draws_under_a_name_of_training(tier: str) -> None:
    page, rng = make_document("train/7/1/2", tier)
    drawing = draw(page, rng, document="train/7/1/2", tier=tier)
    assert np.array_equal(draw_page("7/1/2", tier).pixels, drawing.pixels)


def test_the_dataset_names_its_documents_by_numbers_alone() -> None:
    for seed in (0, 1, -7):
        (number, *_), *_ = [sample.key.split("/") for sample in SyntheticDocuments(DatasetSource(seed=seed))]
        assert int(number) == seed


@pytest.mark.parametrize("tier", ["clean", "noisy", "fonts"])
def test_on_the_grid_the_labels_are_the_printed_text(tier: str) -> None:
    for number in range(20):
        drawn = draw_page(f"0/0/{number}", tier)
        assert drawn.page is not None
        assert _printed(drawn.characters) == "".join("".join(drawn.page.lines).split())


def test_off_the_grid_the_labels_are_printed_characters_and_nearly_all_of_them() -> None:
    named = printed = 0
    for number in range(20):
        drawn = draw_page(f"0/0/{number}", "shifted")
        assert drawn.page is not None
        text = "".join("".join(drawn.page.lines).split())
        assert set(_printed(drawn.characters)) <= set(text)
        named += len(_printed(drawn.characters))
        printed += len(text)
    assert 0.99 < named / printed <= 1
    assert CLASSES == 39


def test_off_the_grid_a_label_stands_where_its_character_has_ink() -> None:
    dark = unlike = 0
    for number in range(20):
        drawn = draw_page(f"ink/{number}", "shifted")
        quarters = (
            drawn.characters.reshape(2, 6, 6, 2, 2, 2).transpose(1, 3, 0, 2, 4, 5).reshape(12, 24, 2).max(axis=-1)
        )
        paper = int(np.median(drawn.pixels))
        for row, column in zip(*np.nonzero(quarters > 0), strict=True):
            around = drawn.pixels[max(0, 8 * row - 4) : 8 * row + 12, 8 * column : 8 * column + 8]
            dark += bool((around < paper - 60).any())
            unlike += not (around < paper - 60).any()
    assert unlike / dark < 0.01


def test_a_digit_that_is_moved_does_not_come_in_at_the_other_edge() -> None:
    inks, _ = inks_and_labels("train")
    for seed in range(200):
        drawn = draw_digit(random.Random(seed))
        rng = random.Random(seed)
        ink, down = inks[rng.randrange(len(inks))], rng.choice((-1, 0, 0, 0, 1))
        edge = {-1: drawn.pixels[:12], 0: None, 1: drawn.pixels[-12:]}[down]
        assert ink[0].any()
        assert edge is None or (edge == 255).all()


def test_dense_pages_are_labelled_on_four_tiles() -> None:
    drawn = draw_page("0/0/0", "dense")
    assert drawn.page is not None
    assert drawn.characters.shape == (4, 36, 8)
    assert (drawn.characters > 0).sum() == len("".join("".join(drawn.page.lines).split()))


def test_tiles_are_cut_row_by_row_and_followed_by_an_overview_of_the_page() -> None:
    pixels = np.zeros((192, 192), dtype=np.uint8)
    pixels[:96, 96:], pixels[96:, :96], pixels[96:, 96:] = 1, 2, 3
    tiles = cut_tiles(pixels, random.Random(0))
    assert [int(tile[0, 0]) for tile in tiles[:4]] == [0, 1, 2, 3]
    assert tiles[4][0, 0] == 0
    assert tiles[4][-1, -1] == 3


def test_digits_come_from_the_training_half_alone() -> None:
    official = load_digits()
    for seed in range(200):
        drawn, row = draw_digit(random.Random(seed)), random.Random(seed).randrange(898)
        assert drawn.answer == str(official.target[row])
        # It is moved by one of its squares at most, and what was paper stays paper.
        grown = maximum_filter(official.images[row] > 0, 3)
        assert not (drawn.pixels[::12, 48:144:12] < 255)[~grown].any()


def test_a_digit_stands_on_a_page_of_two_tiles_without_character_labels() -> None:
    drawn = draw_digit(random.Random(3))
    assert drawn.pixels.shape == (96, 192)
    assert set(drawn.characters.flatten()) == {UNKNOWN}
    assert (drawn.question, len(drawn.answer)) == ("Which digit is this?", 1)
