"""Compare the data sets of two runs: which they are, and how many samples both runs have."""

from __future__ import annotations

from dataclasses import dataclass

from vlmhyperbench.domain.identity import may_be_paired
from vlmhyperbench.domain.specs import DatasetSpec
from vlmhyperbench.reports.samples import Samples
from vlmhyperbench.reports.sections.wording import plural


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSets:
    """The data sets of two runs."""

    baseline: str
    other: str
    """Name, version, split and revision of a data set."""
    baseline_samples: int
    other_samples: int
    """Number of samples of each run."""
    shared: int
    """Number of samples that both runs have; 0 if the data sets differ."""
    equal_keys: int
    """Number of keys that both runs have; in different data sets they belong to different samples."""
    is_pair: bool
    """Whether equal keys mean the same sample."""
    is_same: bool
    """Whether both runs have exactly the same samples."""

    @property
    def sentence(self) -> str:
        """Say how the samples differ; empty if both runs have the same."""
        if self.is_same:
            return ""
        counts = f"{plural(self.baseline_samples, 'sample')} and {plural(self.other_samples, 'sample')}"
        if self.is_pair:
            names = self.baseline if self.other == self.baseline else f"{self.baseline} and {self.other}"
            return f"Different samples of {names}: {counts}, {self.shared} in both."
        names = f"Two data sets, {self.baseline} and {self.other}: {counts}, none in both."
        keys = f" {plural(self.equal_keys, 'key is', 'keys are')} in both, but for different samples."
        return names + (keys if self.equal_keys else "")


def data_sets_of(baseline: Samples, other: Samples) -> DataSets:
    """Compare the data sets of two runs."""
    specs = [DatasetSpec.model_validate(samples.side.spec.get("dataset")) for samples in (baseline, other)]
    first, second = ({str(key) for key in side.frame["key"].unique().to_list()} for side in (baseline, other))
    is_pair = may_be_paired(specs[0], specs[1], (baseline.manifest_id, other.manifest_id))
    equal = len(first & second)
    return DataSets(
        baseline=_named(specs[0]),
        other=_named(specs[1]),
        baseline_samples=len(first),
        other_samples=len(second),
        shared=equal if is_pair else 0,
        equal_keys=equal,
        is_pair=is_pair,
        is_same=is_pair and baseline.manifest_id == other.manifest_id,
    )


def _named(spec: DatasetSpec) -> str:
    parts = [f"{spec.name} {spec.version}"]
    parts += [f"split {spec.split}"] if spec.split else []
    parts += [f"revision {spec.revision}"] if spec.revision else []
    return ", ".join(parts)
