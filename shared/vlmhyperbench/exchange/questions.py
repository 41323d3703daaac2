"""The question that a session asks, in a file of answers: checked before anything is submitted."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

from vlmhyperbench.bounded import ChildBounds, run_bounded
from vlmhyperbench.data.images import check
from vlmhyperbench.domain.specs import Limits
from vlmhyperbench.errors import InvalidInput
from vlmhyperbench.exchange.dataset import AnswersDataset
from vlmhyperbench_sdk.protocols import DatasetSource

BOUNDS = ChildBounds(memory_bytes=1024**3, cpu_s=60, wall_s=120)


async def count_images(path: Path, *, bounds: ChildBounds = BOUNDS) -> int:
    """Return how many images the question of a file has, each decoded once, in a bounded child.

    Raises:
        InvalidInput: the file has several questions (code `one_question`), or an image of it is in another format than
            models are sent, is broken, or too large (code `invalid_image`).
    """
    return int(str(await run_bounded(images_here, str(path), what="the question", bounds=bounds)))


def images_here(path: str) -> int:
    """Check the images in this process, and return their number; the entry point of the child."""
    sample, *others = islice(AnswersDataset(DatasetSource(path=Path(path))), 2)
    if others:
        cure = "Send a file with one line after its header."
        raise InvalidInput("A session asks one question, and the file has several.", cure=cure, code="one_question")
    for no, image in enumerate(sample.images, 1):
        check(image.read(), Limits(), what=f"Image {no} of the question")
    return len(sample.images)
