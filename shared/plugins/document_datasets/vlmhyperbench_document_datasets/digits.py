"""The dataset `handwritten_digits`: digits that people wrote, from the test set of UCI's optical recognition data.

The 1,797 images are those that scikit-learn ships (E. Alpaydin and C. Kaynak, 1998): 8 × 8 counts of
ink from 0 to 16, reduced from forms that 13 people filled in. This package contains none of these data.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from importlib import import_module

import numpy as np
from numpy.typing import NDArray

from vlmhyperbench_document_datasets.drawing import Grey, encode
from vlmhyperbench_document_datasets.params import choice, integer, refuse, unknown_params
from vlmhyperbench_sdk.errors import InvalidInput
from vlmhyperbench_sdk.protocols import DatasetSource
from vlmhyperbench_sdk.types import Image, Sample

SPLITS = {"train": range(898), "test": range(898, 1797)}
"""Rows of each split, in the order of the data: the second half is held out, as in scikit-learn's example on these
digits. The rows are not shuffled, so that a writer's digits are mostly in one split."""
SIDE, MAX_INK = 8, 16
MAX_SCALE = 64
_SHA256 = "87ff0c9e40dc7e2c0e34e7257799c2e3f3aec1a016363bb11cad869ec428a826"
"""SHA-256 of all images and then all labels, a byte for each value."""
QUESTION = "Which digit is this?"


class HandwrittenDigits:
    """Yield the digits of a split, `test` (899, the default) or `train` (898), with the question which digit it is.

    Params:
        scale: side of the square for each of the 8 × 8 counts, in pixels (default 12, a digit of 96 × 96).
        page: `square` shows only the digit; `wide` shows it in the centre of white paper that is twice as wide.

    Keys are the rows of the data. Metadata: `doc_class` and `question_type`, both `digit`; `split`; `tier`, which is
    `handwritten`.
    """

    def __init__(self, source: DatasetSource) -> None:
        self._split = "test" if source.split is None else source.split
        self._scale, bad_scale = integer(source.params, "scale", default=12, min_value=1, max_value=MAX_SCALE)
        page, bad_page = choice(source.params, "page", default="square", known=("square", "wide"))
        problems = [*unknown_params(source.params, ("scale", "page")), *bad_scale, *bad_page]
        if self._split not in SPLITS:
            problems.append(f"split: {self._split!r} is none of {', '.join(SPLITS)}.")
        if source.revision is not None:
            problems.append("revision: the digits have none; they are checked against their hash.")
        if source.path is not None:
            problems.append("path: the digits come with scikit-learn, and no file is read.")
        refuse("handwritten_digits", problems)
        self._is_wide = page == "wide"
        self._inks, self._labels = inks_and_labels(self._split)

    def __iter__(self) -> Iterator[Sample]:
        for row, ink, label in zip(SPLITS[self._split], self._inks, self._labels, strict=True):
            yield Sample(
                key=f"{row:04d}",
                question=QUESTION,
                images=(Image(data=encode(draw_ink(ink, scale=self._scale, is_wide=self._is_wide))),),
                references=(str(label),),
                metadata={
                    "doc_class": "digit",
                    "question_type": "digit",
                    "split": self._split,
                    "tier": "handwritten",
                },
            )


def draw_ink(ink: NDArray[np.int64], *, scale: int, is_wide: bool) -> Grey:
    """Draw a digit.

    Args:
        ink: Counts of ink, shape (8, 8): 0 is white, 16 is black.
        scale: Side of the square of each count, in pixels.
        is_wide: Whether the digit is in the centre of paper that is twice as wide.
    """
    grey = (255 - (255 * ink + MAX_INK // 2) // MAX_INK).astype(np.uint8)
    large = grey.repeat(scale, axis=0).repeat(scale, axis=1)
    margin = SIDE // 2 * scale if is_wide else 0
    return np.pad(large, ((0, 0), (margin, margin)), constant_values=255)


def inks_and_labels(split: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the counts of ink of a split, shape (rows, 8, 8), and the digits.

    Raises:
        KeyError: there is no such split.
        InvalidInput: scikit-learn is not installed, or ships other digits.
    """
    try:
        data = import_module("sklearn.datasets").load_digits()
    except ImportError as error:
        raise InvalidInput(
            "The dataset handwritten_digits needs the package scikit-learn, which is not installed.",
            cure="Install vlmhyperbench-document-datasets[digits].",
        ) from error
    inks, labels = data.images.astype(np.int64), data.target.astype(np.int64)
    if hashlib.sha256(inks.astype(np.uint8).tobytes() + labels.astype(np.uint8).tobytes()).hexdigest() != _SHA256:
        raise InvalidInput(
            "This scikit-learn ships other digits than the ones that results are compared on.",
            cure="Install a scikit-learn that vlmhyperbench-document-datasets was tested with: see its pyproject.toml.",
        )
    rows = slice(SPLITS[split].start, SPLITS[split].stop)
    return inks[rows], labels[rows]
