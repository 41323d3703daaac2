"""The samples of an imported file, where no dataset is named: each with the question and references that it tells."""

from __future__ import annotations

from collections.abc import Iterator

from vlmhyperbench.errors import InvalidInput
from vlmhyperbench.exchange.answers import Answer, read_answers
from vlmhyperbench_sdk.protocols import DatasetSource
from vlmhyperbench_sdk.types import Sample


class AnswersDataset:
    """Yield one sample per key of a file of answers, in the file's order; repeats are answers of one sample.

    What is asked is what the first answer says that knows its references.
    """

    def __init__(self, source: DatasetSource) -> None:
        if source.path is None:
            raise InvalidInput("A file of answers needs a path.")
        self._file = source.path

    def __iter__(self) -> Iterator[Sample]:
        first: dict[str, Answer] = {}
        for answer in read_answers(self._file).answers:
            known = first.setdefault(answer.key, answer)
            if known.references is None and answer.references is not None:
                first[answer.key] = answer
        for answer in first.values():
            yield Sample(
                key=answer.key,
                question=answer.question or "",
                references=answer.references or (),
                metadata=answer.metadata,
            )
