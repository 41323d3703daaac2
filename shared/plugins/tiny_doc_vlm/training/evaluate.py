"""Print the tables of the model card: `python -m training.evaluate`, for all committed versions, side by side."""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Sequence

import vlmhyperbench_tiny_doc_vlm as tiny
from training.answering import MODEL, a_model, add_options, answer
from training.held_out import SEED, Item, draw_items
from training.options import at_least_one, new_file, run
from vlmhyperbench_document_datasets.suites import SUITES


def main(arguments: list[str]) -> None:
    """Parse the command line, send the questions, and print the tables."""
    parser = argparse.ArgumentParser(prog="python -m training.evaluate", description=__doc__)
    parser.add_argument("models", nargs="*", type=a_model, default=tiny.versions(), help=MODEL)
    parser.add_argument("--documents", type=at_least_one, default=100, help="of every suite but digits")
    parser.add_argument("--suites", nargs="+", choices=SUITES, default=SUITES)
    parser.add_argument("--seed", type=int, default=SEED)
    add_options(parser)
    parser.add_argument("--answers", type=new_file, help="write every answer there, as JSON lines")
    given = parser.parse_args(arguments)
    items = questions(given.suites, given.documents, seed=given.seed)
    answers = {model: answer(model, items, given) for model in given.models}
    if given.answers:
        lines = (
            _line(name, *pair)
            for name, model_answers in answers.items()
            for pair in zip(items, model_answers, strict=True)
        )
        given.answers.write_text("".join(lines), encoding="utf-8")
    sys.stdout.write(tables(items, answers))


def questions(suites: Sequence[str], documents: int, *, seed: int) -> list[Item]:
    """Return the questions of suites about a number of documents; a repeated suite counts once."""
    return [item for suite in dict.fromkeys(suites) for item in draw_items(suite, documents, seed=seed)]


def tables(items: Sequence[Item], answers: dict[str, Sequence[str]]) -> str:
    """Return exact match in Markdown: by suite, and by type of question in each suite, with a column per model.

    Args:
        items: The questions.
        answers: Name of the model → its answers, in the order of the items.
    """
    counts = {name: _Counts(items, model_answers) for name, model_answers in answers.items()}
    asked = Counter(item.suite for item in items)
    groups = sorted({item.group for item in items})

    def cell(suite: str, group: str = "") -> str:
        return " / ".join(filter(None, (count.share(suite, group) for count in counts.values())))

    lines = [f"| suite | questions | {' / '.join(counts)} |", "|---|---|---|"]
    lines += [f"| {suite} | {asked[suite]} | {cell(suite)} |" for suite in asked]
    lines += ["", f"| asked for | questions | {' | '.join(asked)} |", "|---" * (len(asked) + 2) + "|"]
    for group in groups:
        numbers = sorted(Counter(item.suite for item in items if item.group == group).values())
        often = f"{numbers[0]}" if numbers[0] == numbers[-1] else f"{numbers[0]} to {numbers[-1]}"
        lines.append(f"| {group} | {often} | {' | '.join(cell(suite, group) for suite in asked)} |")
    return "\n".join(lines) + "\n"


class _Counts:
    """Return the share of right answers of a model, by suite (group "") and by group in it."""

    def __init__(self, items: Sequence[Item], answers: Sequence[str]) -> None:
        self._right, self._asked = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
        for item, model_answer in zip(items, answers, strict=True):
            for group in ("", item.group):
                self._asked[item.suite, group] += 1
                self._right[item.suite, group] += model_answer == item.expected

    def share(self, suite: str, group: str) -> str:
        """Return the share of right answers as text; empty without questions."""
        count = self._asked[suite, group]
        return f"{self._right[suite, group] / count:.3f}" if count else ""


def _line(model: str, item: Item, model_answer: str) -> str:
    row = {"model": model, "suite": item.suite, "group": item.group, "question": item.question}
    return json.dumps({**row, "expected": item.expected, "answer": model_answer}) + "\n"


if __name__ == "__main__":
    sys.exit(run(main))
