"""Read the samples that a dataset spec selects: the plugin's own, then filters, the draw, and the limit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Final

from vlmhyperbench.data.apart import samples_apart
from vlmhyperbench.domain.filters import read_filter
from vlmhyperbench.domain.selection import draw, passes, stratum_of, text_of
from vlmhyperbench.domain.specs import DatasetSpec
from vlmhyperbench.errors import InvalidInput, PluginFailure, VlmHyperBenchError
from vlmhyperbench.metric_process import MetricHost
from vlmhyperbench.sources import require_source
from vlmhyperbench_sdk import discovery
from vlmhyperbench_sdk.protocols import Dataset, DatasetSource
from vlmhyperbench_sdk.suggestions import did_you_mean
from vlmhyperbench_sdk.types import Sample

CURE: Final = "Correct the dataset; docs/write-a-dataset.md states its contract."
MAX_VALUES: Final = 20
"""Maximum number of values of a metadata field that an error lists."""


def doubled_key(name: str, key: str, first: str | None, second: str | None) -> VlmHyperBenchError:
    """Return the error of a key that two samples of a dataset have, with their places if both are known."""
    if first is None or second is None:
        return PluginFailure(f"The dataset {name!r} yields the key {key!r} twice.", cure=CURE)
    message = f"The dataset {name!r} has the key {key!r} at {first} and again at {second}."
    cure = "Give each row a key of its own, map another column to `key`, or map none: then rows are named by numbers."
    return InvalidInput(message, cure=cure, code="doubled_key")


class Selection:
    """The selected samples of a dataset; it can be iterated any number of times."""

    def __init__(
        self, spec: DatasetSpec, host: MetricHost | None = None, *, without: Collection[str] = frozenset()
    ) -> None:
        self._spec = spec
        self._without = without
        self._host = host
        labels = {"doc_class": spec.doc_classes, "question_type": spec.question_types}
        self._labels = {name: frozenset(values) for name, values in labels.items() if values}
        self._pairs: set[tuple[str, str]] = set()
        """Values of `doc_class` and `question_type` that occur together, where both are filtered."""
        self._conditions = tuple(map(read_filter, spec.where))
        names = {*labels} if self._labels else set[str]()
        self._values: dict[str, Counter[str]] = {
            name: Counter() for name in sorted(names | {condition.column for condition in self._conditions})
        }

    @property
    def root(self) -> Path | None:
        """Folder in which its images have to be."""
        return root_of(self._spec)

    def __iter__(self) -> Iterator[Sample]:
        """Yield the samples in the dataset's order.

        Raises:
            InvalidInput: the parameters are wrong, or no sample is selected.
            NotFound: the dataset's plugin or its files do not exist.
            Conflict: the code of the dataset was edited since the run was submitted.
            PluginFailure: the dataset breaks its contract.
        """
        count = 0
        for sample in islice(self._drawn(), self._spec.limit):
            count += 1
            yield sample
        if not count:
            raise InvalidInput(f"The dataset {self._spec.name!r} has no sample{self._why_none()}.", cure=self._cure())

    def _drawn(self) -> Iterator[Sample]:
        """Yield what passes the filters; with a draw the dataset is read twice, so that no image is held."""
        sampling = self._spec.sampling
        if sampling is None:
            yield from self._wanted()
            return
        if self._spec.limit is not None:  # a smaller draw: the first samples of one may all be of one stratum
            sampling = sampling.model_copy(update={"size": min(sampling.size, self._spec.limit)})
        drawn = draw(self._strata(self._wanted(), sampling.by), sampling)
        yield from (sample for sample in read_samples(self._spec, self._host) if sample.key in drawn)

    def _wanted(self) -> Iterator[Sample]:
        """Yield what passes the filters.

        Raises:
            InvalidInput: all samples were read, and none has what a filter excludes values of, which excludes nothing.
        """
        known: set[str] = set()
        for sample in read_samples(self._spec, self._host):
            known.update(sample.metadata)
            if self._is_wanted(sample):
                yield sample
        for condition in self._conditions:
            if condition.operator == "!=" and not condition.is_any and known and condition.column not in known:
                message = f"The dataset {self._spec.name!r} has no metadata {condition.column!r}, which a filter names."
                raise InvalidInput(message, cure=did_you_mean(condition.column, known, nothing="Leave it out."))

    def _strata(self, samples: Iterable[Sample], by: Sequence[str]) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Yield key and stratum of each sample.

        Raises:
            InvalidInput: no sample has metadata by which strata are made; all samples would be one stratum.
        """
        known: set[str] = set()
        any_sample = False
        for sample in samples:
            any_sample = True
            known.update(name for name, value in sample.metadata.items() if value is not None)
            yield sample.key, stratum_of(sample.metadata, by)
        missing = next((name for name in by if name not in known), None)
        if any_sample and missing is not None:
            message = f"The dataset {self._spec.name!r} has no metadata {missing!r}, by which samples are drawn."
            raise InvalidInput(message, cure=did_you_mean(missing, known, nothing="It has none."))

    def _is_wanted(self, sample: Sample) -> bool:
        metadata = sample.metadata
        if sample.key in self._without:
            return False
        for name, seen in self._values.items():
            if len(seen) <= MAX_VALUES:
                seen["(absent)" if metadata.get(name) is None else text_of(metadata[name])] += 1
        if len(self._labels) > 1 and len(self._pairs) <= MAX_VALUES:
            self._pairs.add((text_of(metadata.get("doc_class")), text_of(metadata.get("question_type"))))
        return all(metadata.get(name) in values for name, values in self._labels.items()) and all(
            passes(condition, metadata) for condition in self._conditions
        )

    def _why_none(self) -> str:
        if not self._values:
            return ""
        known = (f"{name} {', '.join(sorted(seen)[:MAX_VALUES]) or 'nothing'}" for name, seen in self._values.items())
        return f" that passes the filters; it has {'; '.join(known)}"

    def _cure(self) -> str:
        """Name what is nearest to a value, or to a pair of values, that no sample has."""
        for name, values in self._labels.items():
            seen = self._values[name]
            if len(seen) <= MAX_VALUES and not values & seen.keys():
                return f"{name}: {did_you_mean(min(values), seen)}"
        if 0 < len(self._pairs) <= MAX_VALUES:
            wanted = " with ".join(min(values) for values in self._labels.values())
            return did_you_mean(wanted, map(" with ".join, self._pairs))
        return "Correct its path, params, split or filters."


def root_of(spec: DatasetSpec) -> Path | None:
    """Return the folder in which the images of a dataset have to be; None for one without files."""
    path = Path(spec.path) if spec.path is not None else None
    return path if path is None or path.is_dir() else path.parent


def read_samples(spec: DatasetSpec, host: MetricHost | None = None) -> Iterator[Sample]:
    """Yield all samples of a dataset, in the environment that it pins; an error of its plugin outside the project's
    error tree becomes a failure.

    Raises:
        VlmHyperBenchError: see `Selection`.
    """
    source = DatasetSource(
        path=Path(spec.path) if spec.path is not None else None,
        split=spec.split,
        revision=spec.revision,
        seed=spec.seed,
        params=spec.params,
    )
    if spec.environment is not None:
        yield from samples_apart(spec, source, host)
        return
    require_source(spec.package, f"dataset {spec.name!r}")
    dataset: type[Dataset] = discovery.load("datasets", spec.type)
    try:
        for sample in dataset(source):
            if not isinstance(sample, Sample):
                message = f"The dataset {spec.name!r} yields a {type(sample).__name__}, not a Sample."
                raise PluginFailure(message, cure=CURE)
            yield sample
    except VlmHyperBenchError:
        raise
    except Exception as error:  # the code of plugins may raise anything
        message = f"The dataset {spec.name!r} raises {type(error).__name__} ({error})."
        raise PluginFailure(message, cure=CURE) from error
