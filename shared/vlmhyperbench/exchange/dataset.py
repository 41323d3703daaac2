"""The dataset of an import without a named dataset: the questions and references of the imported file."""

from __future__ import annotations

from collections.abc import Iterator

from vlmhyperbench.errors import InvalidInput
from vlmhyperbench.exchange.answers import read_answers
from vlmhyperbench.exchange.pictures import SAME, digest_of_url, image_of
from vlmhyperbench_sdk.protocols import DatasetSource
from vlmhyperbench_sdk.types import Sample


class AnswersDataset:
    """Yield one sample per key of a file of answers, in the file's order; repeats are answers of one sample.

    A sample's question and images are those of its first answer that has references. The file is read twice, so that
    only the samples' keys and the images that several samples share are held in memory.
    """

    def __init__(self, source: DatasetSource) -> None:
        if source.path is None:
            raise InvalidInput("A file of answers needs a path.")
        self._file = source.path

    def __iter__(self) -> Iterator[Sample]:
        asked: dict[str, tuple[bool, str]] = {}
        shared: set[str] = set()
        for answer in read_answers(self._file).answers:
            has_references = answer.references is not None
            if answer.key not in asked or (has_references and not asked[answer.key][0]):
                asked[answer.key] = (has_references, answer.location)
            shared.update(url.removeprefix(SAME) for url in answer.image_urls if url.startswith(SAME))
        known: dict[str, str] = {}
        for answer in read_answers(self._file).answers:
            known |= {name: url for url in answer.image_urls if (name := digest_of_url(url)) in shared}
            if asked[answer.key][1] == answer.location:
                yield Sample(
                    key=answer.key,
                    question=answer.question or "",
                    images=tuple(image_of(url, known) for url in answer.image_urls),
                    references=answer.references or (),
                    metadata=answer.metadata,
                )
