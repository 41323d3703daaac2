"""Classification: precision, recall and F1 of classes, averaged over a group's confusion matrix."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from vlmhyperbench_sdk.errors import InvalidInput
from vlmhyperbench_sdk.params import check_profile
from vlmhyperbench_sdk.protocols import MetricDescription
from vlmhyperbench_sdk.types import JsonObject, Measures
from vlmhyperbench_text_metrics.confusion import Average, average_of, cell_name
from vlmhyperbench_text_metrics.normalise import NormaliserV1
from vlmhyperbench_text_metrics.one_hot import one_hot
from vlmhyperbench_text_metrics.pairs import NO_REFERENCE, lay_out

NO_CLASS = "no_class"
"""Reason: none of the references is the name of a class."""

MAX_CLASS_CHARS = 80
"""Maximum length of a class after normalisation, because statistics contain the names."""

_FORMULAS: Mapping[Average, str] = {
    "macro_f1": "mean over classes of F1 = 2 tp / (support + predicted)",
    "micro_f1": "2 * sum of tp / (sum of support + sum of predicted)",
    "weighted_f1": "mean over samples of their class's F1 = 2 tp / (support + predicted)",
    "macro_precision": "mean over classes of tp / predicted, 0 where nothing is predicted",
    "macro_recall": "mean over classes of tp / support",
    "balanced_accuracy": "mean over classes of tp / support",
}


class Classification:
    """One class per sample: precision, recall and F1 of a group, with its confusion matrix.

    ## Formula

    The classes of a group are the true classes of its samples. With *right* = samples of a class that were predicted as
    this class, *support* = samples of the class, *predicted* = samples predicted as the class:

    precision = right / predicted, 0 where nothing is predicted; recall = right / support; F1 = 2 right / (support +
    predicted).

    Texts are compared after the normaliser of exact_match. An answer that names no class is `__unparsed__`: wrong, and
    predicted as no class.

    A sample's value is 1 if the answer is its class, else 0.

    ## Classes

    With the param `labels` the classes are closed: an answer that is none of them is unparsed. Without, an answer of at
    most 80 characters is a candidate, and is unparsed in a group in which nobody has it as true class. Give `labels`
    where answers are free text: else each different wrong answer is a column of the stored statistics.

    Of several references the first that the answer equals is the sample's class, else the first that is a class.

    ## A group

    Pooled: the value follows from the sums of the cells. The additive statistics are `count` and one per pair of
    classes that occurs, `cell:<true>|<predicted>`, with `__unparsed__` as the predicted one where there is none. In
    names `%`, `|` and what is not printable are written as `%XX`, so that a class `a|b` is `a%7Cb`.
    `confusion_of(sums)` turns them into the matrix and each class's precision, recall, F1 and support.

    ## Bad input

    A sample without a reference is unscored (`no_reference`). So is one none of whose references is a class
    (`no_class`): empty, over 80 characters, or outside the labels. An empty answer is unparsed.

    ## Rows of `vlmhyperbench score`

    ```json
    {"id": 1, "prediction": "receipt", "targets": "Receipt"}
    ```

    Closed classes: `--param 'labels=["receipt", "invoice"]'`.

    ## Where tools differ

    | Tool | Difference |
    |---|---|
    | scikit-learn, `labels` = the true classes of the group | none; 0/0 is 0 there by default, with a warning |
    | scikit-learn without `labels` | a predicted class that no sample has (an unparsed answer, too) is a class with F1
        0, and lowers the macro averages; micro F1 is accuracy |
    | scikit-learn with a list of all `labels` | one without a sample in the group is a class with F1 0, so that the
        macro F1 of a small group is low |
    | `balanced_accuracy_score` | none |
    """

    profiles: ClassVar[Mapping[str, str]] = {
        "macro_f1": "the mean of F1 over the classes.",
        "micro_f1": (
            "2 Σ right / (Σ support + Σ predicted). The share of right answers where every answer names a "
            "class of the group."
        ),
        "weighted_f1": "the mean of F1 over the classes, each by its support.",
        "macro_precision": "the mean of precision over the classes.",
        "macro_recall": "the mean of recall over the classes.",
        "balanced_accuracy": "what `macro_recall` is.",
    }

    def __init__(self, *, profile: Average = "macro_f1", labels: Sequence[str] = ()) -> None:
        """Accept the profile and, if they are known, the classes.

        Raises:
            InvalidInput: there is no such profile, or the labels are no list of texts of 1 to 80 characters.
        """
        check_profile("classification", profile, self.profiles)
        self._average: Average = profile
        self._normaliser = NormaliserV1()
        if isinstance(labels, str) or not all(isinstance(label, str) for label in labels):
            raise InvalidInput("The labels of classification are no list of texts.", cure="Write labels: [a, b].")
        self._labels = frozenset(map(self._normaliser, labels))
        if not all(1 <= len(label) <= MAX_CLASS_CHARS for label in self._labels):
            raise InvalidInput(
                f"A label of classification is empty or longer than {MAX_CLASS_CHARS} characters.",
                cure="Name every class by a shorter text.",
            )

    @property
    def description(self) -> MetricDescription:
        return MetricDescription(
            name="classification",
            profile=self._average,
            version="1.0.0",
            title=f"Classification, {self._average.replace('_', ' ').replace('f1', 'F1')}",
            kind="classification",
            unit="1",
            range=(0.0, 1.0),
            direction="higher",
            aggregation="pooled",
            proportion=False,
            normaliser=str(self._normaliser),
            formula=f"{_FORMULAS[self._average]}; classes are the true ones of the group, an unparsed answer is wrong",
            source="Sokolova and Lapalme 2009, Information Processing and Management 45, table 3; Brodersen et al. "
            "2010, balanced accuracy; scikit-learn, sklearn.metrics",
        )

    def measure(
        self,
        predictions: Sequence[str],
        references: Sequence[Sequence[str]],
        *,
        metadata: Sequence[JsonObject] | None = None,  # noqa: ARG002 (part of the contract)
    ) -> Measures:
        pairs = lay_out(predictions, references)
        answers = iter(map(self._class_of, self._normaliser.bulk(list(predictions))))
        truths = iter(map(self._class_of, self._normaliser.bulk(pairs.references)))
        values: list[float | None] = []
        reasons: list[str | None] = []
        cells: list[str | None] = []
        for own in references:
            predicted = next(answers)
            true = [label for label in [next(truths) for _ in own] if label is not None]
            if not true:
                values.append(None)
                reasons.append(NO_CLASS if own else NO_REFERENCE)
                cells.append(None)
                continue
            counted = predicted if predicted in true else true[0]
            values.append(float(predicted == counted))
            reasons.append(None)
            cells.append(cell_name(counted, predicted))
        return one_hot(values, reasons, cells)

    def compared(self, texts: Sequence[str]) -> list[str]:
        return self._normaliser.bulk(list(texts))

    def combine(self, sums: Mapping[str, float]) -> float | None:
        return average_of(sums, self._average)

    def _class_of(self, text: str) -> str | None:
        known = text in self._labels if self._labels else 1 <= len(text) <= MAX_CLASS_CHARS
        return text if known else None
