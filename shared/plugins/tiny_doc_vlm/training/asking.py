"""Questions about a training page, their wordings, and the answers of a perfect reader."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from training.vocabulary import END, encode
from vlmhyperbench_document_datasets.pages import Page
from vlmhyperbench_document_datasets.questions import (
    MAX_ABSENT,
    Question,
    ask,
    ask_absent,
    ask_schema,
)
from vlmhyperbench_document_datasets.schemas import SCHEMAS

READER_PROMPT = (
    "You read documents. Answer with what is printed, and nothing else. If the page does not state it, answer: not"
    " stated."
)
"""The system prompt of the platform's prompt `document-reader`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Habits:
    """Frequencies of questions in training: probabilities, or weights of questions relative to each other."""

    other_wording: float
    absent: float
    """Probability of questions about absent fields, with a rule that gives the answer to them."""
    styles: dict[str, float]
    system_prompt: float
    """Probability that a batch has `READER_PROMPT`, which contains the rule for absent fields."""
    weights: dict[str, float]
    """Question type → weight with which it is drawn next; other types are never asked."""
    leads: dict[str, float] = field(default_factory=dict)
    """Weights of `LEADS`, the first question if there is room for long answers, which rarely fit after others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """A question and its answer, as tokens; both end with the end of a turn."""

    question: list[int]
    answer: list[int]
    kind: str
    """Type of the question, or `reasons` if its answer has reasons; the log counts by it."""


FIRST_HABITS = Habits(
    other_wording=0,
    absent=0,
    styles={"value": 1},
    system_prompt=0,
    weights={"field": 1, "kind": 0.3, "read": 0.5, "json": 0.5},
)
"""Habits of the first version: four questions, with one wording each."""
TRANSCRIBING = replace(FIRST_HABITS, weights={"read": 1})
"""Reading the whole page, which teaches the text model the positions of a page's tokens."""
ALL_HABITS = Habits(
    other_wording=0.5,
    absent=0.25,
    styles={"value": 0.9, "sentence": 0.1},
    system_prompt=0.1,
    weights={
        "field": 1,
        "absent": 1,
        "kind": 0.3,
        "read": 0.5,
        "json": 0.5,
        "schema": 0.15,
        "item": 0.8,
        "count": 0.4,
        "sum": 0.4,
    },
    leads={"schema": 1, "whole": 1, "reasons": 1},
)
LEADS: dict[str, tuple[str, ...]] = {
    "schema": ("schema",),
    "whole": ("json", "read"),
    "reasons": ("field", "absent"),
}
"""First question → its types; those with reasons have the rule for absent fields half of the time, as in evaluation."""


def exchange(question: str, answer: str, *, kind: str) -> Exchange:
    """Return a question and its answer in the form of the chat template."""
    return Exchange(
        question=[*encode(question), END, *encode("\nAssistant: ")], answer=[*encode(answer), END], kind=kind
    )


def ask_page(
    page: Page,
    habits: Habits,
    rng: random.Random,
    *,
    budget_tokens: int,
    is_long: bool = False,
    has_system_prompt: bool = False,
) -> list[Exchange]:
    """Return as many questions about a page as a budget of tokens allows, at least one, in an order drawn by weight.

    Args:
        page: The page.
        habits: Frequencies of questions.
        rng: The random numbers.
        budget_tokens: Maximum number of tokens of questions and answers.
        is_long: Whether there is room for the longest answers; one of them is then the first.
        has_system_prompt: Whether `READER_PROMPT` precedes the questions, which then do not repeat its rules.
    """
    leads = {name: weight for name, weight in habits.leads.items() if is_long and not (name == "schema" and page.items)}
    lead = _draw(leads, rng) if leads else ""
    has_absent = rng.random() < (0.5 if lead == "reasons" else habits.absent)
    style = "reasons" if lead == "reasons" else _draw(habits.styles, rng)
    questions = [question for question in _questions(page, rng, has_absent=has_absent) if _weight(question, habits)]
    questions.sort(key=lambda question: rng.random() ** (1 / _weight(question, habits)), reverse=True)
    questions.sort(key=lambda question: question.question_type not in LEADS.get(lead, ()))
    asked: list[Exchange] = []
    left_tokens = budget_tokens
    says_rule = has_absent and not has_system_prompt
    for question in questions:
        exchange = _put_in_words(question, habits, rng, with_absent=says_rule, style=style)
        length = len(exchange.question) + len(exchange.answer)
        if length <= left_tokens:
            asked.append(exchange)
            left_tokens -= length
    return asked or [_put_in_words(questions[-1], habits, rng, with_absent=says_rule, style="value")]


def _draw(weights: dict[str, float], rng: random.Random) -> str:
    return rng.choices([*weights], weights=[*weights.values()])[0]


def _questions(page: Page, rng: random.Random, *, has_absent: bool) -> Iterator[Question]:
    yield from ask(page)
    if has_absent:
        yield from ask_absent(page, rng, rng.randint(1, MAX_ABSENT))
    # A table in the form of a schema needs the tokens of all other questions.
    if not page.items:
        yield ask_schema(page, rng.choice(SCHEMAS))


def _weight(question: Question, habits: Habits) -> float:
    return habits.weights.get(question.question_type, 0)


def _put_in_words(question: Question, habits: Habits, rng: random.Random, *, with_absent: bool, style: str) -> Exchange:
    number = rng.randrange(len(question.wordings())) if rng.random() < habits.other_wording else 0
    kind = "reasons" if style == "reasons" and question.said_of else question.question_type
    asked = question.asked(number, with_absent=with_absent, style=style)
    return exchange(asked, question.full_answer(style), kind=kind)
