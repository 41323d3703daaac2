"""Score the same answers here and with the code of evaluation harnesses, in an environment of theirs.

`python -m benchmarks.harness_scores --out docs/results/harness-scores.md` scores the fixtures of the catalogue on both
sides, and ends with 1 where a score differs that is not known to. `make harness-scores` installs the environment first.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from tests.support.benchmarks import Fixture, fixture
from vlmhyperbench_sdk import discovery
from vlmhyperbench_sdk.protocols import Metric

ROOT = Path(__file__).parents[1]
PYTHON = ROOT / ".venvs/engines/harness/bin/python"
"""Interpreter of the environment that `requirements/engines/harness.txt` pins: of the harnesses only their scoring is
called, so torch and all that they need to ask models is left out."""
HARNESSES = ("lm_eval", "lmms_eval")
TOLERANCE = 1e-6
"""cc_ocr_kie adds so much to what it divides by."""
CASES: Mapping[str, tuple[str, str, str, str]] = {
    "docvqa": ("docvqa", "anls", "docvqa", "lmms_eval"),
    "chartqa": ("chartqa", "relaxed_accuracy", "pix2struct", "lmms_eval"),
    "textvqa": ("textvqa", "vqa_accuracy", "textvqa", "lmms_eval"),
    "ocrbench": ("ocrbench", "contains_match", "ocrbench", "lmms_eval"),
    "gsm8k_strict": ("gsm8k", "number_match", "gsm8k_strict", "lm_eval"),
    "gsm8k_flexible": ("gsm8k", "number_match", "gsm8k_flexible", "lm_eval"),
    "hallusion_facc": ("hallusionbench", "hallusionbench", "facc", "lmms_eval"),
    "hallusion_qacc": ("hallusionbench", "hallusionbench", "qacc", "lmms_eval"),
    "mathvista_quick": ("mathvista", "mathvista", "quick", "lmms_eval"),
    "omnidocbench_text": ("omnidocbench", "omnidocbench", "text", "lmms_eval"),
    "omnidocbench_table": ("omnidocbench", "omnidocbench", "table", "lmms_eval"),
    "omnidocbench_formula": ("omnidocbench", "omnidocbench", "formula", "lmms_eval"),
    "ifeval_prompt_strict": ("ifeval", "ifeval", "prompt_strict", "lm_eval"),
    "ifeval_prompt_loose": ("ifeval", "ifeval", "prompt_loose", "lm_eval"),
    "ifeval_instruction_strict": ("ifeval", "ifeval", "instruction_strict", "lm_eval"),
    "ifeval_instruction_loose": ("ifeval", "ifeval", "instruction_loose", "lm_eval"),
    "mmlu_pro": ("mmlu-pro", "multiple_choice", "mmlu_pro", "lm_eval"),
    "ai2d": ("ai2d", "exact_match", "v1", "lmms_eval"),
    "realworldqa": ("realworldqa", "exact_match", "v1", "lmms_eval"),
    "cord": ("cord", "field_f1", "exact", "lmms_eval"),
    "teds_pubtabnet": ("pubtabnet", "teds", "pubtabnet", "lmms_eval"),
    "teds_structure": ("pubtabnet", "teds", "structure", "lmms_eval"),
}
"""Function of `harness_side` → task, metric, profile, distribution of the harness."""
_WHOLE = "The whole answer has to be yes or no there; here it is read as evaluate.py of POPE reads it."
DIFFERING: Mapping[str, tuple[str, str, str, str, str]] = {
    "ai2d_letter": (
        *("ai2d", "multiple_choice", "vlmevalkit", "lmms_eval"),
        '"The answer is A" is no exact match there; here the letter is read as VLMEvalKit reads it.',
    ),
    "mmmu": (
        *("mmmu", "mmmu", "official", "lmms_eval"),
        (
            "An open answer with several forms is a list that the data writes as text; there that text is the one "
            "answer, and a letter that cannot be read is drawn. Here each form counts, and such a letter is wrong."
        ),
    ),
    "pope_f1": ("pope", "yes_no", "f1", "lmms_eval", _WHOLE),
    "pope_accuracy": ("pope", "yes_no", "accuracy", "lmms_eval", _WHOLE),
    "pope_precision": ("pope", "yes_no", "precision", "lmms_eval", _WHOLE),
    "pope_recall": ("pope", "yes_no", "recall", "lmms_eval", _WHOLE),
    "sroie": (
        *("sroie", "field_f1", "exact", "lmms_eval"),
        "An answer that is no JSON counts as one wrong field here, and as none there.",
    ),
}
"""As `CASES`, with the reason why the scores differ."""
HEAD = """\
# The same answers, scored here and by harnesses

Written by `python -m benchmarks.harness_scores`. The answers are those of the fixtures of [the public
benchmarks](../benchmarks.md): a few drawn rows each, so this shows that the rules are the same, and says nothing of a
published number. The code of the harnesses runs in an environment of its own ({versions}).

| task | metric | answers | here | harness | score of its code |
|---|---|---|---|---|---|
"""
TAIL = """
## Where the rules differ

| task | metric | answers | here | harness | score of its code | why |
|---|---|---|---|---|---|---|
{rows}
`cord` is scored by the task cc_ocr_kie, which has the rules of VLMEvalKit: the receipts of the fixture get the same F1,
but a price that is right in another item counts there, and not here. `pubtabnet` is scored by the TEDS of its task
ocrbench_v2, the code of PubTabNet's authors.

## What is not compared

`funsd`: none asks for the entities of its forms. `rvl-cdip`: none has it. `infographicvqa` has the metric of `docvqa`.
`arc-challenge` and `boolq` are not compared: lm-evaluation-harness scores them by log-likelihoods, or by an exact match
of the whole answer.
"""


_STATED = frozenset({"ai2d", "mmmu", "pope", "realworldqa", "cord", "sroie", "pubtabnet"})
"""Tasks whose references are mapped from several columns, or whose answers an extractor reads first."""


def score_here(read: Fixture, metric: str, profile: str) -> float:
    """Score a fixture's answers by a metric of the platform; the tests assert the scores that the fixture states."""
    if (stated := read.scores.get(f"{metric}@{profile}")) is not None and read.name in _STATED:
        return stated
    opened: Metric = discovery.load("metrics", metric)(profile=profile)
    references = [_references(row) for row in read.rows]
    measures = opened.measure(read.answers, references, metadata=read.rows)
    value = opened.combine({name: math.fsum(column) for name, column in measures.statistics.items()})
    return math.nan if value is None else value


def score_there(python: Path, names: Collection[str]) -> dict[str, float]:
    """Score fixtures by the code of the harnesses."""
    known = {**CASES, **DIFFERING}
    ended = subprocess.run(
        [str(python), str(ROOT / "benchmarks/harness_side.py")],
        input=json.dumps({name: _pairs(fixture(known[name][0])) for name in names}),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    scores: dict[str, float] = json.loads(ended.stdout)
    return scores


def versions_of(python: Path) -> str:
    """Return the pins of the harnesses in an environment."""
    code = f"from importlib.metadata import version; print(*(f'{{n}}=={{version(n)}}' for n in {HARNESSES}), sep=', ')"
    return subprocess.run([str(python), "-c", code], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()


def _pairs(read: Fixture) -> list[tuple[object, str]]:
    return list(zip(read.rows, read.answers, strict=True))


def _references(row: Mapping[str, Any]) -> list[str]:
    if "gt_answer" in row:
        return ["Yes" if row["gt_answer"] == "1" else "No"]
    value = row.get("answers", row.get("answer"))
    return [str(text) for text in value] if isinstance(value, list) else [str(value)]


def main() -> int:
    """Compare every case and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    out = parser.parse_args().out
    if not PYTHON.is_file():
        sys.exit(f"There is no {PYTHON}: run `make harness-scores`.")
    there = score_there(PYTHON, [*CASES, *DIFFERING])
    here = {name: score_here(fixture(case[0]), *case[1:3]) for name, case in {**CASES, **DIFFERING}.items()}
    wrong = [name for name in CASES if not math.isclose(here[name], there[name], abs_tol=TOLERANCE)]
    equal = "".join(f"{_row(case, here[name], there[name])}\n" for name, case in CASES.items())
    rows = "".join(f"{_row(case[:4], here[name], there[name])} {case[4]} |\n" for name, case in DIFFERING.items())
    text = HEAD.format(versions=versions_of(PYTHON)) + equal + TAIL.format(rows=rows)
    sys.stdout.write(text)
    if wrong:
        sys.stdout.write(f"Not equal: {', '.join(wrong)}.\n")
        return 1
    if out is not None:
        out.write_text(text, encoding="utf-8")
    return 0


def _row(case: tuple[str, str, str, str], here: float, there: float) -> str:
    task, metric, profile, harness = case
    score = here if math.isclose(here, there, abs_tol=TOLERANCE) else there
    return f"| {task} | `{metric}@{profile}` | {len(fixture(task).answers)} | {here:.6f} | {harness} | {score:.6f} |"


if __name__ == "__main__":
    sys.exit(main())
