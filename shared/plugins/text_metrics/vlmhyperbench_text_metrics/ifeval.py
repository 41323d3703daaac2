"""IFEval: the share of instructions, or of prompts with all of their instructions, that responses follow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from vlmhyperbench_sdk.params import check_profile
from vlmhyperbench_sdk.protocols import MetricDescription
from vlmhyperbench_sdk.types import JsonObject, Measures
from vlmhyperbench_text_metrics.instructions import CHECKS, UNCHECKED, BadArguments, is_followed, variants
from vlmhyperbench_text_metrics.judged import texts_of
from vlmhyperbench_text_metrics.pairs import share

NO_INSTRUCTIONS = "no_instructions"
UNKNOWN_INSTRUCTION = "unknown_instruction"
BAD_INSTRUCTION = "bad_instruction"


class IfEval:
    """Responses follow instructions that a program can check, such as *no commas* or *at least 300 words*.

    ## Formula

    Each instruction of a prompt is followed or not. Strict: the response as it is. Loose: the response, or the response
    without its first line, its last, or both, or any of these without asterisks. Prompt level: 1 if all instructions of
    the prompt are followed, else 0. Instruction level: instructions followed / instructions checked.

    The metadata has `instruction_id_list`, the names of the instructions, and `kwargs`, an object of arguments for
    each, as in the benchmark's file. No reference is read.

    ## A group

    The sum of `correct` by the sum of `count`: prompts at prompt level, checked instructions at instruction level, so
    that a prompt with three instructions has the weight of three.

    ## Instructions that are not checked

    Of the 25 instructions, 21 are checked. Four need what no program decides the same way twice or without a trained
    model, and are left out by name; the reason of an unscored sample says which it has:

    | Instruction | What its check needs | Reason |
    |---|---|---|
    | `length_constraints:number_sentences` | the trained splitter of NLTK, whose data is downloaded apart |
        `unchecked_number_sentences` |
    | `language:response_language` | langdetect, whose guess is random: the script does not seed it |
        `unchecked_response_language` |
    | `change_case:english_capital` | the same | `unchecked_english_capital` |
    | `change_case:english_lowercase` | the same | `unchecked_english_lowercase` |

    So 687 of the 834 instructions of the data are checked, and 405 of its 541 prompts have a value at prompt
    level. **These numbers are not those of papers, which are over all prompts.** Every result says how many are left
    out: at prompt level the other 136 prompts are its unscored samples, each with its reason; at instruction level the
    statistic `left_out`, beside `correct` and `count`, sums the instructions of scored samples that were not checked,
    and a sample of which none was checked is unscored.

    langdetect, which could be seeded, is not used: its last release is of 2021, another detector would score other
    languages than the authors' script, and the prompts that count sentences would be left out all the same.

    ## Bad input

    A prompt with an instruction that is not checked is unscored at prompt level; at instruction level the other
    instructions count, and it is unscored if there are none. A prompt with an instruction that IFEval does not have is
    unscored at both (`unknown_instruction`). A sample without
    `instruction_id_list` is unscored (`no_instructions`), and one whose arguments are missing or of another type too
    (`bad_instruction`); the script draws a random argument then. A blank response follows no instruction.

    ## Where tools differ

    | Tool | Difference |
    |---|---|
    | google-research, `instruction_following_eval` | keywords are regular expressions there, which differs for none of
        the data; two prompts count `#` and `!`, for which the script draws a random letter instead; words in capitals
        are counted by the same tokenizer, without the trained splitter of sentences before it |
    | lm-evaluation-harness 0.4, `ifeval` | as google-research; arguments that are null are left out first, as here |
    """

    profiles: ClassVar[Mapping[str, str]] = {
        "prompt_strict": "prompts with all instructions followed, strict.",
        "prompt_loose": "prompts with all instructions followed, loose.",
        "instruction_strict": "instructions followed, strict.",
        "instruction_loose": "instructions followed, loose.",
    }

    def __init__(self, *, profile: str = "prompt_strict") -> None:
        self._profile = check_profile("ifeval", profile, self.profiles)
        self._is_of_prompts = profile.startswith("prompt")
        self._is_loose = profile.endswith("loose")

    @property
    def description(self) -> MetricDescription:
        return MetricDescription(
            name="ifeval",
            profile=self._profile,
            version="1.2.0",
            title=f"IFEval, {self._profile.replace('_', ' level, ')}",
            kind="text",
            unit="1",
            range=(0.0, 1.0),
            direction="higher",
            aggregation="mean" if self._is_of_prompts else "pooled",
            proportion=self._is_of_prompts,
            normaliser="also without the first or last line and without asterisks" if self._is_loose else "as written",
            formula="1 if all instructions of the prompt are followed, else 0"
            if self._is_of_prompts
            else "instructions followed / instructions checked",
            source="Zhou et al. 2023, arXiv:2311.07911; instruction_following_eval of google-research",
        )

    def measure(
        self,
        predictions: Sequence[str],
        references: Sequence[Sequence[str]],  # noqa: ARG002 (part of the contract)
        *,
        metadata: Sequence[JsonObject] | None = None,
    ) -> Measures:
        about = metadata if metadata is not None else [{}] * len(predictions)
        judged = [self._judged(answer, own) for answer, own in zip(predictions, about, strict=True)]
        counts = [(0, 0) if isinstance(own, str) else (sum(own), len(own)) for own in judged]
        given = [len(texts_of(own, "instruction_id_list")) for own in about]
        left_out = [float(size - count) if count else 0.0 for size, (_, count) in zip(given, counts, strict=True)]
        if self._is_of_prompts:
            counts = [(int(right == count), 1) if count else (0, 0) for right, count in counts]
        return Measures(
            values=[right / count if count else None for right, count in counts],
            reasons=[own if isinstance(own, str) else None for own in judged],
            statistics={
                "correct": [float(right) for right, _ in counts],
                "count": [float(count) for _, count in counts],
                **({} if self._is_of_prompts else {"left_out": left_out}),
            },
        )

    def combine(self, sums: Mapping[str, float]) -> float | None:
        return share(sums, "correct")

    def _judged(self, response: str, metadata: JsonObject) -> list[bool] | str:
        """Return of each checked instruction whether it is followed, or the reason why the sample is unscored."""
        names, arguments = texts_of(metadata, "instruction_id_list"), metadata.get("kwargs")
        if not names:
            return NO_INSTRUCTIONS
        if not isinstance(arguments, (list, tuple)) or len(arguments) != len(names):
            return BAD_INSTRUCTION
        checked = [(name, own) for name, own in zip(names, arguments, strict=True) if name in CHECKS]
        left_out = [UNCHECKED.get(name, UNKNOWN_INSTRUCTION) for name in names if name not in CHECKS]
        if UNKNOWN_INSTRUCTION in left_out:
            return UNKNOWN_INSTRUCTION
        if left_out and (self._is_of_prompts or not checked):
            return left_out[0]
        texts = variants(response) if self._is_loose else [response]
        try:
            return [
                any(is_followed(name, own if isinstance(own, Mapping) else {}, text) for text in texts)
                for name, own in checked
            ]
        except BadArguments:
            return BAD_INSTRUCTION
