"""The conformance suite of datasets catches what it promises to catch."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.wording import Wording
from vlmhyperbench_sdk.errors import InvalidInput, PluginFailure
from vlmhyperbench_sdk.protocols import DatasetSource
from vlmhyperbench_sdk.testing.datasets import check_dataset
from vlmhyperbench_sdk.types import Image, Sample

PNG = b"\x89PNG\r\n\x1a\nrest"


class Good:
    samples: tuple[Sample, ...] = (
        Sample(key="a", question="What?", images=(Image(data=PNG),), references=("x",), metadata={"doc_class": "c"}),
        Sample(key="b", question="Why?"),
    )

    def __init__(self, source: DatasetSource) -> None:
        if source.params:
            raise InvalidInput("No params here.")

    def __iter__(self) -> Iterator[Sample]:
        return iter(self.samples)


class Lax(Good):
    def __init__(self, source: DatasetSource) -> None:
        pass


class Consumed(Good):
    def __init__(self, source: DatasetSource) -> None:
        super().__init__(source)
        self._rest = iter(self.samples)

    def __iter__(self) -> Iterator[Sample]:
        return self._rest


class Restless(Good):
    readings = 0

    def __iter__(self) -> Iterator[Sample]:
        type(self).readings += 1
        return iter((Sample(key="a", question=str(self.readings)),))


def _of(*samples: Sample) -> type[Good]:
    return type("Bad", (Good,), {"samples": samples})


def test_a_dataset_that_keeps_the_contract_passes() -> None:
    assert check_dataset(Good, DatasetSource()) == 2
    assert check_dataset(Good, DatasetSource(), max_samples=1) == 1


def test_a_dataset_that_accepts_unknown_params_fails() -> None:
    with pytest.raises(PluginFailure, match="accepts a param"):
        check_dataset(Lax, DatasetSource())


def test_a_dataset_that_can_be_read_only_once_fails(wording: Wording) -> None:
    with pytest.raises(PluginFailure) as refused:
        check_dataset(Consumed, DatasetSource())
    wording(refused.value)


def test_a_dataset_that_changes_between_readings_fails() -> None:
    with pytest.raises(PluginFailure, match="other content"):
        check_dataset(Restless, DatasetSource())


@pytest.mark.parametrize(
    "dataset",
    [
        _of(),
        _of(Sample(key="a", question=""), Sample(key="a", question="")),
        _of(Sample(key="", question="")),
        _of(Sample(key="a", question="\ud800")),
        _of(Sample(key="a", question="", references=("a\x00",))),
        _of(Sample(key="a", question="", references=["x"])),
        _of(Sample(key="a", question="", metadata={"x": float("nan")})),
        _of(Sample(key="a", question="", images=(Image(data=b"GIF89a"),))),
        _of(Sample(key="a", question="", images=(Image(path=Path("/no/such/file")),))),
    ],
)
def test_every_breach_is_named(dataset: type[Good], wording: Wording) -> None:
    with pytest.raises(PluginFailure) as refused:
        check_dataset(dataset, DatasetSource())
    wording(refused.value)
