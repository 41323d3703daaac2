"""Send all engines the same questions and print how many answers agree: `python -m training.parity`.

Decoding is greedy; the first installed engine is the reference. The table names engines that are not installed, with
the reason. The exit status is 1 if an engine of full precision differs too often, if fewer than two of several
requested engines answered, or with `--need-all` if any of them did not.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path

import vlmhyperbench_tiny_doc_vlm as tiny
from training.answering import answer_with_server
from training.engines import ENGINES, PARALLEL_REQUESTS, Engine, serve
from training.held_out import DIGITS, SEED, SUITES, Item, draw_items
from training.options import at_least_one, new_file, run

ENVIRONMENTS = Path(__file__).parents[4] / ".venvs" / "engines"
"""Folder into which `make parity` installs the environments."""
MIN_SAME_SHARE = 0.99
KNOWN_SUITES = {tiny.FIRST: ("clean",)}
"""Version → suites that it learned to read, if not all. On other pages a model guesses: many words are nearly equally
likely, so that the smallest numerical difference changes the answer."""


def main(arguments: list[str]) -> int:
    """Parse the command line, send the questions, print the table, and return the exit status."""
    every = (*SUITES, DIGITS)
    parser = argparse.ArgumentParser(prog="python -m training.parity", description=__doc__)
    parser.add_argument("--version", choices=tiny.versions(), default=tiny.versions()[-1])
    parser.add_argument("--questions", type=at_least_one, default=500)
    parser.add_argument("--suites", nargs="+", choices=every, help="default: what the version learned to read")
    parser.add_argument("--environments", type=Path, default=ENVIRONMENTS, help="where transformers/ and vllm/ lie")
    parser.add_argument("--engines", nargs="+", choices=sorted({engine.kind for engine in ENGINES}))
    parser.add_argument("--need-all", action="store_true", help="fail where an engine cannot be asked")
    parser.add_argument("--answers", type=new_file, help="write every answer there, as JSON lines")
    given = parser.parse_args(arguments)
    suites = given.suites or KNOWN_SUITES.get(given.version, every)
    items = draw_questions(suites, given.questions)
    folder = tiny.path("config.json", given.version).parent
    engines = [engine for engine in ENGINES if not given.engines or engine.kind in given.engines]
    missing = {engine.label: engine.missing(given.environments.absolute()) for engine in engines}
    answers = {
        engine.label: _ask(engine, items, folder, given.environments.absolute())
        for engine in engines
        if not missing[engine.label]
    }
    if given.answers:
        lines = (
            json.dumps(
                {"suite": item.suite, "question": item.question, "expected": item.expected}
                | {label: answer[index] for label, answer in answers.items()}
            )
            + "\n"
            for index, item in enumerate(items)
        )
        given.answers.write_text("".join(lines), encoding="utf-8")
    sys.stdout.write(table(items, answers, missing))
    wrong = what_is_wrong(engines, answers)
    if given.need_all:
        wrong += [f"{label} was not asked: {reason}" for label, reason in missing.items() if reason]
    sys.stdout.writelines(f"{line}\n" for line in wrong)
    return 1 if wrong else 0


def draw_questions(suites: Sequence[str], count: int) -> list[Item]:
    """Return a number of questions, equally many of each suite; the last suites have the remainder."""
    suites = [*dict.fromkeys(suites)]
    each = math.ceil(count / len(suites))
    return [item for suite in suites for item in islice(draw_items(suite, each, seed=SEED), each)][:count]


def table(items: Sequence[Item], answers: Mapping[str, Sequence[str]], missing: Mapping[str, str]) -> str:
    """Return a Markdown table with a row for each engine.

    Args:
        items: The questions.
        answers: Label of the engine → its answers, in the order of the items; the first engine is the reference.
        missing: Label of the engine → why it could not answer, or empty; all engines, in the order of the rows.
    """
    first = next(iter(answers), "")
    lines = [f"| engine | exact | same text as {first} |", "|---|---|---|"]
    for label, reason in missing.items():
        if reason:
            lines.append(f"| {label} | | {reason} |")
            continue
        right = sum(answer == item.expected for item, answer in zip(items, answers[label], strict=True))
        same = "" if label == first else f"{_same(answers[first], answers[label])} of {len(items)}"
        lines.append(f"| {label} | {right / len(items):.3f} | {same} |")
    return "\n".join(lines) + "\n"


def what_is_wrong(engines: Sequence[Engine], answers: Mapping[str, Sequence[str]]) -> list[str]:
    """Return which engines differ though they must agree with the first one, or that too few engines answered."""
    wanted = [engine.label for engine in engines if engine.must_agree]
    asked = [label for label in wanted if label in answers]
    if len(asked) < min(2, len(wanted)):
        return ["Nothing was compared: install two engines of full precision (PIP_FIND_LINKS names torch for them)."]
    return [
        f"{label} gives other answers than {asked[0]} to more than 1 in 100 questions."
        for label in asked[1:]
        if _same(answers[asked[0]], answers[label]) < MIN_SAME_SHARE * len(answers[label])
    ]


def _same(first: Sequence[str], other: Sequence[str]) -> int:
    return sum(mine == theirs for mine, theirs in zip(first, other, strict=True))


def _ask(engine: Engine, items: Sequence[Item], folder: Path, environments: Path) -> list[str]:
    with serve(engine, folder, environments) as url:
        name = engine.model_name(folder)
        return answer_with_server(url, items, model=name, parallel=PARALLEL_REQUESTS)


if __name__ == "__main__":
    sys.exit(run(main))
