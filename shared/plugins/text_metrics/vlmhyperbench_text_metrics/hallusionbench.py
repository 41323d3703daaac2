"""HallusionBench: the share of figures, or of questions, all of whose answers are right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from vlmhyperbench_sdk.params import check_profile
from vlmhyperbench_sdk.protocols import MetricDescription
from vlmhyperbench_sdk.types import JsonObject, Measures
from vlmhyperbench_text_metrics.confusion import escaped
from vlmhyperbench_text_metrics.one_hot import one_hot
from vlmhyperbench_text_metrics.yes_no import YesNo

NO_GROUP = "no_group"
_RIGHT, _WRONG = "right:", "wrong:"


class HallusionBench:
    """The share of figures, or of questions, all of whose answers are right.

    ## Formula

    Groups with right answers only / groups. A group is a figure (`facc`: the same category, subcategory, set and
    figure) or a question (`qacc`: the same category, subcategory, set and question, about the figures of the set, of
    which some were changed). Answers are read as by [yes_no@words](yes_no.md), which is the benchmark's third number,
    aAcc.

    The metadata has `category`, `subcategory`, `set_id`, `figure_id` and `question_id`, as in the benchmark's files. A
    sample's own value is 1 if its answer is right, else 0.

    ## A group of samples

    Any samples: each group counts by those of its answers that are there. The additive statistics are `right:<group>`
    or `wrong:<group>`, and `count`; in names `%`, `|` and what is not printable are written as `%XX`. An interval draws
    images: that of `facc` draws figures whole, but that of `qacc` draws parts of questions, which are easier to get
    right, so that it lies too high.

    ## Bad input

    A sample without a reference is unscored (`no_reference`), one whose references are neither yes nor no too
    (`no_yes_or_no`), and one that lacks a part of its group in the metadata (`no_group`).

    ## Where tools differ

    | Tool | Difference |
    |---|---|
    | tianyi-lab/HallusionBench, lmms-eval 0.7 | GPT-4 reads the answers. In `facc` statements without a figure are left
        out, which this metric counts as a group like any other; the split with images has none |
    | VLMEvalKit, `HallusionBench` | the names of groups leave the category out, so that sets of a subcategory that both
        categories have would be one group |
    """

    profiles: ClassVar[Mapping[str, str]] = {
        "facc": "figures.",
        "qacc": "questions.",
    }

    def __init__(self, *, profile: str = "facc") -> None:
        self._profile = check_profile("hallusionbench", profile, self.profiles)
        last = "figure_id" if profile == "facc" else "question_id"
        self._parts = ("category", "subcategory", "set_id", last)
        self._answers = YesNo(profile="words")

    @property
    def description(self) -> MetricDescription:
        group = "figures" if self._profile == "facc" else "questions"
        return MetricDescription(
            name="hallusionbench",
            profile=self._profile,
            version="1.0.0",
            title=f"HallusionBench, {group}",
            kind="classification",
            unit="1",
            range=(0.0, 1.0),
            direction="higher",
            aggregation="pooled",
            proportion=False,
            normaliser="the words yes and no",
            formula=f"{group} with right answers only / {group}",
            source="Guan et al. 2024, arXiv:2310.14566, section 4; utils.py of tianyi-lab/HallusionBench",
        )

    def measure(
        self,
        predictions: Sequence[str],
        references: Sequence[Sequence[str]],
        *,
        metadata: Sequence[JsonObject] | None = None,
    ) -> Measures:
        judged = self._answers.measure(predictions, references)
        about = metadata if metadata is not None else [{}] * len(predictions)
        groups = [self._group(own) for own in about]
        values = [None if group is None else value for group, value in zip(groups, judged.values, strict=True)]
        reasons = [
            NO_GROUP if reason is None and group is None else reason
            for reason, group in zip(judged.reasons, groups, strict=True)
        ]
        names = [
            None if value is None else f"{_RIGHT if value else _WRONG}{group}"
            for value, group in zip(values, groups, strict=True)
        ]
        return one_hot(values, reasons, names)

    def combine(self, sums: Mapping[str, float]) -> float | None:
        groups = {name.partition(":")[2] for name, count in sums.items() if count > 0 and ":" in name}
        wrong = sum(sums.get(f"{_WRONG}{group}", 0.0) > 0 for group in groups)
        return 1.0 - wrong / len(groups) if groups else None

    def _group(self, metadata: JsonObject) -> str | None:
        parts = [metadata.get(name) for name in self._parts]
        if any(isinstance(part, (dict, list)) or part is None or part == "" for part in parts):
            return None
        return "|".join(escaped(str(part)) for part in parts)
