"""Print the tables of the model card: `python -m training.evaluate FOLDER`, or the URL of a server in its place."""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from training.answering import answer_with_server, answer_with_weights
from training.held_out import DIGITS, SEED, SUITES, Item, draw_items


def main(arguments: list[str]) -> None:
    """Read the command line, ask, and print."""
    known = (*SUITES, DIGITS)
    parser = argparse.ArgumentParser(prog="python -m training.evaluate", description=__doc__)
    parser.add_argument("model", help="a folder of exported files, or http://HOST:PORT")
    parser.add_argument("--documents", type=int, default=100, help="of every suite (default 100)")
    parser.add_argument("--suites", nargs="+", choices=known, default=known)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--name", default="tiny-doc-vlm", help="the model's name on the server")
    parser.add_argument("--parallel", type=int, default=4, help="requests at a time")
    parser.add_argument("--answers", type=Path, help="write every answer there, as JSON lines")
    given = parser.parse_args(arguments)
    items = [item for suite in given.suites for item in draw_items(suite, given.documents, seed=given.seed)]
    if given.model.startswith(("http://", "https://")):
        answers = answer_with_server(given.model, items, model=given.name, parallel=given.parallel)
    else:
        answers = answer_with_weights(Path(given.model), items)
    if given.answers:
        given.answers.write_text("".join(_line(*pair) for pair in zip(items, answers, strict=True)), encoding="utf-8")
    sys.stdout.write(tables(items, answers))


def tables(items: Sequence[Item], answers: Sequence[str]) -> str:
    """Return exact match in Markdown: by suite, and by what was asked in each suite."""
    right, asked = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    for item, answer in zip(items, answers, strict=True):
        for group in ("", item.group):
            asked[item.suite, group] += 1
            right[item.suite, group] += answer == item.expected
    suites = list(dict.fromkeys(item.suite for item in items))
    groups = sorted({item.group for item in items})
    lines = ["| suite | questions | exact |", "|---|---|---|"]
    lines += [f"| {suite} | {asked[suite, '']} | {_share(right, asked, suite, '')} |" for suite in suites]
    lines += ["", f"| asked for | {' | '.join(suites)} |", "|---" * (len(suites) + 1) + "|"]
    for group in groups:
        lines.append(f"| {group} | {' | '.join(_share(right, asked, suite, group) for suite in suites)} |")
    return "\n".join(lines) + "\n"


def _share(right: Counter[tuple[str, str]], asked: Counter[tuple[str, str]], suite: str, group: str) -> str:
    count = asked[suite, group]
    return f"{right[suite, group] / count:.3f}" if count else ""


def _line(item: Item, answer: str) -> str:
    row = {"suite": item.suite, "group": item.group, "question": item.question}
    return json.dumps({**row, "expected": item.expected, "answer": answer}) + "\n"


if __name__ == "__main__":
    main(sys.argv[1:])
