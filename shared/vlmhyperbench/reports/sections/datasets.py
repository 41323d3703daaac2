"""Say which data sets two runs asked, and how many samples both have: what every number of a comparison rests on."""

from __future__ import annotations

from dataclasses import dataclass

from vlmhyperbench.domain.identity import may_be_paired
from vlmhyperbench.domain.specs import DatasetSpec
from vlmhyperbench.reports.samples import Samples
from vlmhyperbench.reports.sections.wording import plural


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSets:
    """What two runs asked."""

    baseline: str
    other: str
    """Name, version, split and revision of a data set."""
    baseline_samples: int
    other_samples: int
    """Samples that were asked."""
    shared: int
    """Samples that both asked: of one data set those of one key, of two data sets none."""
    equal_keys: int
    """Keys that both use; in two data sets they do not stand for one sample."""
    is_pair: bool
    """Whether samples of one key are one sample."""
    is_same: bool
    """Whether both asked exactly the same samples."""

    @property
    def sentence(self) -> str:
        """Say it, where there is something to say; empty where both asked the same."""
        if self.is_same:
            return ""
        counts = f"{plural(self.baseline_samples, 'sample')} and {plural(self.other_samples, 'sample')}"
        if self.is_pair:
            kind = f"Other samples of {self.baseline}"
            kind += "" if self.other == self.baseline else f" and {self.other}"
            return f"{kind}: {counts}, of which {self.shared} are shared."
        kind = f"Two data sets, {self.baseline} and {self.other}: {counts}, of which none is shared."
        keys = f" {plural(self.equal_keys, 'key')} of both are equal, but each numbers samples of its own."
        return kind + (keys if self.equal_keys else "")


def data_sets_of(baseline: Samples, other: Samples) -> DataSets:
    """Compare what two runs asked."""
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
