"""Entity F1: the share of right entities, labelled spans of words, among those of the answer and of the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal

from vlmhyperbench_document_metrics.documents import INVALID_REFERENCE, JsonAnswers, best
from vlmhyperbench_document_metrics.entities import Entity, entities_of_tags, read_entities, read_tags
from vlmhyperbench_document_metrics.rows import NO_REFERENCE, gather
from vlmhyperbench_sdk.params import check_profile
from vlmhyperbench_sdk.protocols import INVALID_ANSWER, MetricDescription
from vlmhyperbench_sdk.types import JsonObject, Measure, Measures

_STATISTICS = ("right", "predicted", "expected", "invalid")
_FORMULAS = {
    "seqeval": "2 * right / (entities of the answer + entities of the reference)",
    "precision": "right / entities of the answer",
    "recall": "right / entities of the reference",
}


class EntityF1:
    """The share of right entities, labelled spans of words, among those of the answer and of the page.

    ## Formula

    An entity is right if its label, its first and its last word are those of an entity of the reference. F1: 2 · right
    / (entities of the answer + entities of the reference); precision: right / entities of the answer; recall: right /
    entities of the reference; best over the references. Where neither has an entity: 1. Where one has none: 0.

    Options: `on_invalid` (`exclude` or `zero`), `repair` (false or true), as in [field_f1](field_f1.md).

    ## A group

    The number of the profile from the sums of `right`, `predicted` and `expected`: micro average. The other additive
    statistics are `invalid` and `count`.

    ## How it is given

    The reference has a tag for each word, in order: `O`, `B-LABEL` or `I-LABEL`, separated by white space. An entity
    begins at a `B-`, and at an `I-` after an `O` or after another label. The answer is the same, a JSON list of such
    tags, or a JSON list of entities with the numbers of their first and last word, from 1:

    ```json
    {"id": 1, "prediction": [{"label": "question", "first": 1, "last": 2}], "targets": "B-QUESTION I-QUESTION O"}
    ```

    Case does not count in labels. Entities with the label `other` or `O` are left out, and equal ones count once.

    ## Bad input

    - No reference: unscored (`no_reference`). A reference that is no list of tags: unscored (`invalid_reference`).
    - An answer that is neither: no value (`invalid_json`), or under `on_invalid: zero` 0, as one wrong entity.
    - An item without `label`, or whose `first` or `last` is no number, is a wrong entity. Without `last` it is a word.
    - Tags beyond the last word are entities, and wrong; words without a tag are in none.

    ## Where tools differ

    | Tool | Difference |
    |---|---|
    | seqeval 1.2 without `mode` | none with tags in IOB2; 0 where neither has an entity, and an error for sequences
        of different lengths |
    | seqeval 1.2, `mode="strict"` | an entity begins at a `B-` only |
    | LayoutLM and later models on FUNSD | none: they report seqeval over the tags of the words that they are given |
    """

    profiles: ClassVar[Mapping[str, str]] = {
        "seqeval": "F1, as `f1_score` of seqeval.",
        "precision": "precision, as `precision_score` of seqeval.",
        "recall": "recall, as `recall_score` of seqeval.",
    }

    def __init__(
        self,
        *,
        profile: str = "seqeval",
        on_invalid: Literal["exclude", "zero"] = "exclude",
        repair: bool = False,
    ) -> None:
        self._profile = check_profile("entity_f1", profile, self.profiles)
        self._reading = JsonAnswers(on_invalid=on_invalid, repair=repair)

    @property
    def description(self) -> MetricDescription:
        return MetricDescription(
            name="entity_f1",
            profile=self._profile,
            version="1.0.0",
            title={"seqeval": "Entity F1"}.get(self._profile, f"Entity {self._profile}"),
            kind="document",
            unit="1",
            range=(0.0, 1.0),
            direction="higher",
            aggregation="pooled",
            proportion=False,
            normaliser=f"labels in lower case; tags, or {self._reading}",
            formula=f"{_FORMULAS[self._profile]}, 1 where there are none; an entity is right where label, first and "
            "last word are",
            source="Tjong Kim Sang and De Meulder 2003, section 2.3; chakki-works/seqeval; Jaume et al. 2019, "
            "arXiv:1905.13538",
        )

    def measure(
        self,
        predictions: Sequence[str],
        references: Sequence[Sequence[str]],
        *,
        metadata: Sequence[JsonObject] | None = None,  # noqa: ARG002 (part of the contract)
    ) -> Measures:
        measures = [self._sample(answer, own) for answer, own in zip(predictions, references, strict=True)]
        return gather(measures, _STATISTICS)

    def compared(self, texts: Sequence[str]) -> list[str]:
        return [text if entities is None else _lines(entities) for text in texts for entities in [self._read(text)]]

    def combine(self, sums: Mapping[str, float]) -> float | None:
        if sums.get("count", 0.0) <= 0:
            return None
        return self._share(sums["right"], sums["predicted"], sums["expected"])

    def _read(self, text: str) -> set[Entity] | None:
        return read_entities(text, self._reading)

    def _sample(self, answer: str, references: Sequence[str]) -> Measure:
        if not references:
            return Measure.unscored(NO_REFERENCE)
        tags = [own for text in references if (own := read_tags(text)) is not None]
        if len(tags) < len(references):
            return Measure.unscored(INVALID_REFERENCE)
        said = self._read(answer)
        if said is None and self._reading.on_invalid == "exclude":
            return Measure.unscored(INVALID_ANSWER)
        return best([self._compare(entities_of_tags(own), said) for own in tags])

    def _compare(self, true: set[Entity], said: set[Entity] | None) -> Measure:
        right, predicted = (0, 1) if said is None else (len(true & said), len(said))
        return Measure(
            value=self._share(right, predicted, len(true)),
            statistics={
                "right": float(right),
                "predicted": float(predicted),
                "expected": float(len(true)),
                "invalid": float(said is None),
            },
        )

    def _share(self, right: float, predicted: float, expected: float) -> float:
        if predicted + expected <= 0:
            return 1.0
        whole = {"precision": predicted, "recall": expected}.get(self._profile, (predicted + expected) / 2)
        return right / whole if whole else 0.0


def _lines(entities: set[Entity]) -> str:
    return "\n".join(f"{label} {first}-{last}" for label, first, last in sorted(entities, key=lambda item: item[1:]))
