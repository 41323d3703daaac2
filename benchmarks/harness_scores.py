"""Score the same answers here and with the code of evaluation harnesses, each in its own environment.

`python -m benchmarks.harness_scores --out docs/results/harness-scores.md` installs the harnesses into
`.venvs/harness`, scores the fixtures of the catalogue on both sides, and ends with 1 where a score differs.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.support.benchmarks import Fixture, fixture
from vlmhyperbench_sdk import discovery
from vlmhyperbench_sdk.protocols import Metric

ROOT = Path(__file__).parents[1]
ENVIRONMENT = ROOT / ".venvs/harness"
WITHOUT_THEIR_PACKAGES = ("lm_eval==0.4.13", "lmms_eval==0.7.3")
"""Only their scoring is called, so torch and all that they need to ask models is left out."""
NEEDED = (
    *("apted==1.0.3", "distance==0.1.3", "editdistance==0.8.1", "evaluate==0.4.6", "immutabledict==4.3.1"),
    *("langdetect==1.0.9", "levenshtein==0.27.5", "loguru==0.7.3", "lxml==6.1.3", "nltk==3.10.4", "numpy==2.2.6"),
    *("pillow==13.0.0", "pyyaml==6.0.3", "sacrebleu==2.6.0", "scipy==1.17.1", "zss==1.2.0"),
)
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
}
"""Function of `harness_side` → task, metric, profile, distribution of the harness."""
HEAD = """\
# The same answers, scored here and by harnesses

Written by `python -m benchmarks.harness_scores`. The answers are those of the fixtures of [the public
benchmarks](../benchmarks.md): a few drawn rows each, so this shows that the rules are the same, and says nothing of a
published number. The code of each harness runs in an environment of its own ({versions}).

| task | metric | answers | here | harness | score of its code |
|---|---|---|---|---|---|
"""


def score_here(read: Fixture, metric: str, profile: str) -> float:
    """Score a fixture's answers by a metric of the platform."""
    opened: Metric = discovery.load("metrics", metric)(profile=profile)
    references = [_references(row) for row in read.rows]
    measures = opened.measure(read.answers, references, metadata=read.rows)
    value = opened.combine({name: math.fsum(column) for name, column in measures.statistics.items()})
    return math.nan if value is None else value


def score_there(python: Path) -> dict[str, float]:
    """Score all fixtures by the code of the harnesses."""
    pairs = {name: _pairs(fixture(task)) for name, (task, *_) in CASES.items()}
    ended = subprocess.run(
        [str(python), str(ROOT / "benchmarks/harness_side.py")],
        input=json.dumps(pairs),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    scores: dict[str, float] = json.loads(ended.stdout)
    return scores


def install() -> Path:
    """Install the harnesses, and return the interpreter of their environment."""
    uv, python = str(ROOT / ".venvs/tools/bin/uv"), ENVIRONMENT / "bin/python"
    if not python.is_file():
        subprocess.run([uv, "venv", "--quiet", str(ENVIRONMENT)], check=True)
    add = [uv, "pip", "install", "--quiet", "--python", str(python)]
    subprocess.run([*add, "--no-deps", *WITHOUT_THEIR_PACKAGES], check=True)
    subprocess.run([*add, *NEEDED], check=True)
    return python


def _pairs(read: Fixture) -> list[tuple[object, str]]:
    return list(zip(read.rows, read.answers, strict=True))


def _references(row: Mapping[str, Any]) -> list[str]:
    if "gt_answer" in row:
        return ["Yes" if row["gt_answer"] == "1" else "No"]
    value = row.get("answers", row.get("answer"))
    return [str(text) for text in value] if isinstance(value, list) else [str(value)]


def main() -> int:
    """Compare every case and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    out = parser.parse_args().out
    there, rows, differing = score_there(install()), "", 0
    for name, (task, metric, profile, harness) in CASES.items():
        read = fixture(task)
        here = score_here(read, metric, profile)
        differing += not math.isclose(here, there[name], abs_tol=1e-12)
        rows += (
            f"| {task} | `{metric}@{profile}` | {len(read.answers)} | {here:.6f} | {harness} | {there[name]:.6f} |\n"
        )
    text = HEAD.format(versions=", ".join(WITHOUT_THEIR_PACKAGES)) + rows
    sys.stdout.write(text)
    if out is not None:
        out.write_text(text, encoding="utf-8")
    return min(differing, 1)


if __name__ == "__main__":
    sys.exit(main())
