"""MMMU: the share of right answers, of multiple choice and open questions, by the benchmark's own rules."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar, Union

from vlmhyperbench_sdk.params import check_profile
from vlmhyperbench_sdk.protocols import MetricDescription
from vlmhyperbench_sdk.types import JsonObject, Measures
from vlmhyperbench_text_metrics.judged import measure_right
from vlmhyperbench_text_metrics.multiple_choice import options_of
from vlmhyperbench_text_metrics.pairs import share

OPEN = "open"
"""Value of the metadata's `question_type` of a question without options."""

Part = Union[str, float]

_ENDS = ",.!?;:'"
_WORDS_OF_A_SENTENCE = 5
_INDICATORS = ("could be ", "so ", "is ", "thus ", "therefore ", "final ", "answer ", "result ")
_TRIVIAL = frozenset(":,.!?;'")
_SENTENCES = re.compile(r"\.\s(?=[A-Z])|\n")
_NUMBERS = (
    re.compile(r"-?\b\d{1,3}(?:,\d{3})+\b"),
    re.compile(r"(?:-|(?<!\d))\d+(?:\.\d+)?[eE][+-]?\d+"),
    re.compile(r"(?:-|(?<!\d))(?:\d+\.\d+|\.\d+|\d+\b)(?![eE][+-]?\d+)(?![,\d])"),
)
"""Numbers with thousands, in scientific notation, and plain ones. None begins inside of digits, where a long run of
them would be searched from each."""


class Mmmu:
    """The answer to a question of MMMU is right, by the benchmark's own rules.

    ## Formula

    Multiple choice: the letter in brackets counts, else the letter between spaces; else, in an answer of more than five
    words, the option whose text occurs. Of several the last one counts. 1 if it is the reference. The options are the
    metadata's `choices`.

    Open questions (the metadata's `question_type` is `open`): of each sentence, the shortest rest after words such as
    *is* or *therefore* is kept, else the whole answer, and every number in it. Numbers are rounded to two decimals. 1
    if such a number equals the reference's, or such a text has the reference in it; a reference of one character needs
    a space beside it. A reference that is a list in a text, `['24/7', '3.429']`, accepts each of its items.

    ## A group

    The mean of its samples' values; the additive statistics are `correct` and `count`.

    ## Bad input

    A sample without a reference is unscored (`no_reference`), never 0. Where no letter is found, the script draws one
    at random; here the answer is wrong, so that equal answers have equal scores.

    ## Where tools differ

    | Tool | Difference |
    |---|---|
    | eval_utils.py of MMMU | guesses a letter at random where none is found; one in four is right on average |
    | lmms-eval 0.7, `mmmu_val` | a letter before a space or a full stop counts too, so the end of `USA is` is `A`; it
        guesses as well; of an open answer one part is taken, and which one depends on the process; a list in a text
        is one text |
    | VLMEvalKit, `MMMU_DEV_VAL` | [multiple_choice](multiple_choice.md), and a judge; open questions have the options
        A (the answer) and B (other answers) |
    """

    profiles: ClassVar[Mapping[str, str]] = {
        "official": "eval_utils.py of MMMU-Benchmark/MMMU, without its random guess.",
    }

    def __init__(self, *, profile: str = "official") -> None:
        self._profile = check_profile("mmmu", profile, self.profiles)

    @property
    def description(self) -> MetricDescription:
        return MetricDescription(
            name="mmmu",
            profile=self._profile,
            version="1.0.1",
            title="MMMU",
            kind="text",
            unit="1",
            range=(0.0, 1.0),
            direction="higher",
            aggregation="mean",
            proportion=True,
            normaliser="the letter, or the option whose text occurs; of open answers the key parts and numbers",
            formula="1 if the letter that is read is the reference; of open questions, if a key part matches it",
            source="Yue et al. 2024, arXiv:2311.16502, section 4; eval_utils.py of MMMU-Benchmark/MMMU",
        )

    def measure(
        self,
        predictions: Sequence[str],
        references: Sequence[Sequence[str]],
        *,
        metadata: Sequence[JsonObject] | None = None,
    ) -> Measures:
        return measure_right(predictions, references, metadata, _is_right)

    def combine(self, sums: Mapping[str, float]) -> float | None:
        return share(sums, "correct")


def _is_right(answer: str, reference: str, metadata: JsonObject) -> bool:
    if metadata.get("question_type") != OPEN:
        return _read_letter(answer, options_of(metadata)) == reference
    accepted = [part for text in _accepted(reference) for part in _normalised(text)]
    return any(_matches(part, accepted) for part in _parts(answer))


def _accepted(reference: str) -> Sequence[str]:
    """Return the texts of an open reference: the data writes a list of several as a literal of Python."""
    if not reference.startswith("["):
        return [reference]
    try:
        texts = ast.literal_eval(reference)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return [reference]
    is_several = isinstance(texts, list) and texts and all(isinstance(text, str) for text in texts)
    return texts if is_several else [reference]  # [0, 5] is an interval


def _matches(part: Part, accepted: Sequence[Part]) -> bool:
    if isinstance(part, str):
        return any(isinstance(text, str) and text in part for text in accepted)
    return part in accepted


def _read_letter(answer: str, options: Mapping[str, str]) -> str | None:
    for mark in _ENDS:
        answer = answer.strip(mark)
    text = f" {answer} "
    for form in ("({})", " {} "):
        places = {letter: text.rfind(form.format(letter)) for letter in options}
        if max(places.values()) >= 0:
            return max(places, key=places.__getitem__)
    if len(text.split()) <= _WORDS_OF_A_SENTENCE:
        return None
    places = {letter: text.lower().rfind(option.lower()) for letter, option in options.items() if option}
    found = {letter: place for letter, place in places.items() if place >= 0}
    return max(found, key=found.__getitem__) if found else None


def _parts(answer: str) -> Iterator[Part]:
    """Yield what an open answer may give as its result, normalised."""
    whole = answer.strip().strip(".").lower()
    keys = list(_keys(whole)) or [whole]
    numbers = [number for key in keys for pattern in _NUMBERS for number in pattern.findall(key)]
    for text in (*keys, *numbers):
        yield from _normalised(text)


def _keys(whole: str) -> Iterator[str]:
    sentences = _SENTENCES.split(whole)
    for no, sentence in enumerate(sentences):
        indicators = (*_INDICATORS, "=") if no == len(sentences) - 1 else _INDICATORS
        rests = [sentence.split(word)[-1].strip() for word in indicators if word in sentence]
        shortest = _shortest(rests)
        if shortest and shortest not in _TRIVIAL:
            yield shortest


def _shortest(rests: Sequence[str]) -> str:
    """Return the first of the shortest texts; an empty one is replaced by the next, as in the script."""
    shortest = ""
    for rest in rests:
        if not shortest or len(rest) < len(shortest):
            shortest = rest
    return shortest


def _normalised(text: str) -> list[Part]:
    text = text.strip()
    try:
        return [round(float(text.replace(",", "")), 2)]
    except ValueError:
        lower = text.lower()
        return [f" {lower}", f"{lower} "] if len(lower) == 1 else [lower]
