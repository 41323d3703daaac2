"""Ask all engines the same questions, and print how many answers are the same: `python -m training.parity`.

Greedy decoding; the first engine that is installed is what the others are compared with. An engine that is not
installed is named in the table, with the reason. Exits with 1 where an engine of full precision differs too often,
where two of them were asked for and did not both answer, or where one did not and `--need-all` is given.
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
"""Where `make parity` installs them."""
MIN_SAME_SHARE = 0.99
KNOWN_SUITES = {tiny.FIRST: ("clean",)}
"""Version → what it learned to read, where that is not everything. Of what a model cannot read, it makes something up:
many words are then nearly as likely, and the smallest difference shows."""


def main(arguments: list[str]) -> int:
    """Read the command line, ask, print, and return the exit status."""
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
                | {label: said[place] for label, said in answers.items()}
            )
            + "\n"
            for place, item in enumerate(items)
        )
        given.answers.write_text("".join(lines), encoding="utf-8")
    sys.stdout.write(table(items, answers, missing))
    wrong = what_is_wrong(engines, answers)
    if given.need_all:
        wrong += [f"{label} was not asked: {reason}" for label, reason in missing.items() if reason]
    sys.stdout.writelines(f"{line}\n" for line in wrong)
    return 1 if wrong else 0


def draw_questions(suites: Sequence[str], count: int) -> list[Item]:
    """Return so many questions, equally many of each suite; the last suites have fewer where that does not come out."""
    suites = [*dict.fromkeys(suites)]
    each = math.ceil(count / len(suites))
    return [item for suite in suites for item in islice(draw_items(suite, each, seed=SEED), each)][:count]


def table(items: Sequence[Item], answers: Mapping[str, Sequence[str]], missing: Mapping[str, str]) -> str:
    """Return a row of Markdown for each engine.

    Args:
        items: what was asked.
        answers: the engine's label → what it answered, in the order of the items; the first is compared with.
        missing: the engine's label → why it could not be asked, or nothing; all engines, in the order of the rows.
    """
    first = next(iter(answers), "")
    lines = [f"| engine | exact | same text as {first} |", "|---|---|---|"]
    for label, reason in missing.items():
        if reason:
            lines.append(f"| {label} | | {reason} |")
            continue
        right = sum(said == item.expected for item, said in zip(items, answers[label], strict=True))
        same = "" if label == first else f"{_same(answers[first], answers[label])} of {len(items)}"
        lines.append(f"| {label} | {right / len(items):.3f} | {same} |")
    return "\n".join(lines) + "\n"


def what_is_wrong(engines: Sequence[Engine], answers: Mapping[str, Sequence[str]]) -> list[str]:
    """Say which of the engines asked for have to agree with the first one, and do not; or that too few answered."""
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
