"""Questions about a page in several wordings, with answers as a value, a sentence, or a reason and a value."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, field

from vlmhyperbench_document_datasets.pages import FIELDS, Page
from vlmhyperbench_document_datasets.schemas import schema_of, written_as
from vlmhyperbench_sdk.types import JsonObject

NOT_STATED = "not stated"
"""The right answer to a question about a field that is not on the page."""
MAX_ABSENT = 3
"""Maximum number of questions about fields that are certainly absent, possible on every page."""

NEVER_PRINTED = ("cashier", "currency", "discount")
"""Fields that are asked for as absent on pages with a table, which have most fields of their classes."""

CONFUSABLE = (
    frozenset(("born", "date", "due")),
    frozenset(("client", "name", "shop", "surname")),
    frozenset(("city", "from", "to")),
    frozenset(("items", "number", "seat")),
    frozenset(("price", "subtotal", "total")),
)
"""Groups of fields that could be confused: if a field is on a page, no other of its group is asked for as absent."""

WORDINGS: dict[str, tuple[str, ...]] = {
    "field": (
        "What is the {subject}?",
        "Give the {subject} as it is printed.",
        'Copy the value of the field "{subject}".',
        "Which value does this document show as {subject}?",
    ),
    "kind": (
        "What kind of document is this?",
        "Name the kind of this document.",
        "Is this an invoice, a passport, a receipt or a ticket?",
        "Which of these is it: receipt, invoice, ticket, passport?",
    ),
    "read": (
        "Read the text.",
        "Write down everything that is printed here.",
        "Transcribe this page, line by line.",
        "What does the page say? Keep its lines.",
    ),
    "json": (
        "Extract all fields as JSON.",
        "Give all fields of this page as one JSON object.",
        "Turn this document into JSON.",
        "Write its kind and every field as JSON.",
    ),
    "schema": (
        'Extract the page as JSON that follows the schema "{subject}".',
        'Fill in the schema "{subject}" from this page.',
        'Give this document as a JSON object of the schema "{subject}".',
        'Write JSON of the form "{subject}" for this page.',
    ),
    "item": (
        "What is the {subject}?",
        "Give the {subject} as the table shows it.",
        "Look up the {subject}.",
        "Which number does the table show as {subject}?",
    ),
    "count": (
        "How many items does the table list?",
        "Count the rows of the table, without its header.",
        "How many different items are there?",
        "Give the number of items in the table.",
    ),
    "sum": (
        "What do all items cost together, without tax?",
        "Add up the sums of all items.",
        "What is the sum of all items before tax?",
        "Give the items' sums, added up.",
    ),
}
"""Question type → its wordings; the first is that of the first model."""

ABSENT_RULE = f" If the page does not state it, answer: {NOT_STATED}."
"""End of every question about a field if some are absent, so that the question does not reveal which."""
STYLE_RULES = {
    "value": "",
    "sentence": " Answer in one sentence.",
    "reasons": ' First say where it stands, then write "Answer:" and the value.',
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question about a page, before it is worded."""

    name: str
    question_type: str
    answer: str
    subject: str = ""
    """The subject that is inserted into its wordings."""
    said_of: str = ""
    """Beginning of a sentence that gives the answer; empty if the answer is never a sentence."""
    reason: str = ""
    span: str | None = None
    """Name of the answer's value in the page's spans."""
    metadata: JsonObject = field(default_factory=dict)

    def wordings(self) -> tuple[str, ...]:
        """Return all wordings of the question."""
        known = WORDINGS["field" if self.question_type == "absent" else self.question_type]
        return tuple(words.format(subject=self.subject) for words in known)

    def asked(self, number: int, *, with_absent: bool, style: str) -> str:
        """Return a wording with the rules for the answer.

        Args:
            number: Number of the wording.
            with_absent: Whether it contains the rule for absent fields.
            style: Style of the answer.
        """
        rules = ABSENT_RULE if with_absent and self.question_type in ("field", "absent") else ""
        return self.wordings()[number] + rules + (STYLE_RULES[style] if self.said_of else "")

    def full_answer(self, style: str) -> str:
        """Return the expected answer in a style; a question without sentences is answered by the value."""
        if style == "value" or not self.said_of:
            return self.answer
        sentence = f"{self.said_of} is {self.answer}."
        return sentence if style == "sentence" else f"{self.reason} {sentence}\nAnswer: {self.answer}"


def ask(page: Page) -> Iterator[Question]:
    """Yield the questions about a page: its fields, its table, its kind, its text, its JSON."""
    for name, value in page.fields.items():
        yield Question(
            name=name,
            question_type="field",
            answer=value,
            subject=name,
            said_of=f"The {name}",
            reason=_line_reads(page, page.spans[name].row),
            span=name,
            metadata={"field": name},
        )
    if page.items:
        yield from _ask_table(page)
    kind = _line_reads(page, 0)
    yield Question(
        name="kind", question_type="kind", answer=page.doc_class, said_of="The kind of document", reason=kind
    )
    text = "\n".join(" ".join(line.split()) for line in page.lines)
    yield Question(name="read", question_type="read", answer=text)
    yield Question(name="json", question_type="json", answer=json.dumps(page.truth))


def ask_schema(page: Page, schema: str) -> Question:
    """Return the question for a page as JSON that follows a schema of this name."""
    return Question(
        name=f"schema-{schema}",
        question_type="schema",
        answer=json.dumps(written_as(schema, page)),
        subject=schema,
        metadata={"schema": schema, "json_schema": schema_of(schema, page)},
    )


def ask_absent(page: Page, rng: random.Random, count: int) -> Iterator[Question]:
    """Yield questions about fields that are absent from the page, and that cannot be confused with one on it."""
    for name in rng.sample(sorted(absent_fields(page)), count):
        yield Question(
            name=f"absent-{name}",
            question_type="absent",
            answer=NOT_STATED,
            subject=name,
            said_of=f"The {name}",
            reason=f"No line gives the {name}.",
            metadata={"field": name},
        )


def absent_fields(page: Page) -> set[str]:
    """Return fields that a page states neither under their own name nor under a similar one."""
    stated = {*page.fields, *page.labels}
    doubtful = {name for group in CONFUSABLE if group & stated for name in group}
    known = {name for fields in FIELDS.values() for name in fields}
    return known.union(NEVER_PRINTED if page.items else ()) - stated - doubtful


def _ask_table(page: Page) -> Iterator[Question]:
    for number, item in enumerate(page.items):
        name_span = page.spans[f"items.{number}.name"]
        for column in ("count", "price", "sum"):
            subject = f"{column} of {item['name']}"
            yield Question(
                name=f"item-{number}-{column}",
                question_type="item",
                answer=item[column],
                subject=subject,
                said_of=f"The {subject}",
                reason=_line_reads(page, name_span.row),
                span=f"items.{number}.{column}",
                metadata={"field": column, "item": item["name"]},
            )
    names = ", ".join(item["name"] for item in page.items)
    yield Question(
        name="count",
        question_type="count",
        answer=str(len(page.items)),
        said_of="The number of items",
        reason=f"The table lists {names}.",
    )
    sums = ", ".join(item["sum"] for item in page.items)
    yield Question(
        name="sum",
        question_type="sum",
        answer=page.fields.get("subtotal", page.fields["total"]),
        said_of="The sum of all items",
        reason=f"The sums are {sums}.",
        span="subtotal" if "subtotal" in page.fields else "total",
    )


def _line_reads(page: Page, row: int) -> str:
    return f'Line {row + 1} reads "{" ".join(page.lines[row].split())}".'
