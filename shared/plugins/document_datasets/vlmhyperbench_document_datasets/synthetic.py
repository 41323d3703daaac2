"""The dataset `synthetic_documents`: seeded receipts, passports, invoices and tickets, several questions on each."""

from __future__ import annotations

import random
from collections.abc import Iterator

from vlmhyperbench_document_datasets.drawing import Box, encode
from vlmhyperbench_document_datasets.faces import require_other_faces
from vlmhyperbench_document_datasets.pages import Page
from vlmhyperbench_document_datasets.params import choice, choices, integer, refuse, unknown_params
from vlmhyperbench_document_datasets.questions import (
    MAX_ABSENT,
    STYLE_RULES,
    Question,
    ask,
    ask_absent,
    ask_schema,
)
from vlmhyperbench_document_datasets.schemas import SCHEMAS
from vlmhyperbench_document_datasets.tiers import TIERS, draw, make_document
from vlmhyperbench_sdk.protocols import DatasetSource
from vlmhyperbench_sdk.types import Image, JsonValue, Sample

MAX_DOCUMENTS = 1_000_000
PARAMS = ("documents", "page", "tier", "phrasings", "unanswerable", "rule", "answer_style", "schemas")
_TEXTS = ("clean", "dense")
"""Tiers with documents of their own; the other tiers draw the clean documents in another way."""


class SyntheticDocuments:
    """Draw `documents` pages (default 200) with questions about every field, the kind, the whole text and JSON.

    Params:
        documents: how many pages; six to eight questions each. The first pages of a longer dataset are the pages of a
            shorter one.
        page: `image` draws the page; `text` puts its text before the question, with no image (a cheap text-only task).
        tier: `clean`, `noisy`, `shifted`, `fonts` (the extra `fonts`) or `dense`; all but `dense` show the same
            documents under the same keys.
        phrasings: `first` uses the wordings that the first model knows; `drawn` one of four, drawn by the seed; `every`
            all four, as a sample each.
        unanswerable: number of questions per page (up to 3) about absent fields; the answer is `not stated`.
        rule: where this rule is stated: `question`, at the end of every question about a field, or `prompt`, a prompt
            with a system prompt such as that of `document-reader`; the questions then do not state it.
        answer_style: `value`, `sentence` or `reasons`: the requested style of answers. The reference remains the value;
            `answer` in the metadata is the whole answer.
        schemas: names of schemas (`pairs`, `nested`, `typed`); each adds a question.

    A document depends only on the seed, its number and the tier, so keys and pages are the same in any order and on any
    machine. Metadata: `doc_class`; `tier`; `truth`, the page as JSON; `boxes`, for every value the pixels (left,
    top, right, bottom; the last two are outside), and `answer_bbox`; `question_type`, one of `field`, `kind`, `read`,
    `json`, `absent`, `schema`, and on dense pages `item`, `count`, `sum`; `field` where one is asked for, and `item`;
    `phrasing` (from 0) where it need not be the first; `answer_style` and `answer` where a style is asked for; `schema`
    and `json_schema`.
    """

    def __init__(self, source: DatasetSource) -> None:
        params = source.params
        self._seed = source.seed
        self._documents, bad_number = integer(params, "documents", default=200, min_value=1, max_value=MAX_DOCUMENTS)
        page, bad_page = choice(params, "page", default="image", known=("image", "text"))
        self._tier, bad_tier = choice(params, "tier", default="clean", known=TIERS)
        self._phrasings, bad_phrasings = choice(params, "phrasings", default="first", known=("first", "drawn", "every"))
        self._absent, bad_absent = integer(params, "unanswerable", default=0, min_value=0, max_value=MAX_ABSENT)
        rule, bad_rule = choice(params, "rule", default="question", known=("question", "prompt"))
        self._style, bad_style = choice(params, "answer_style", default="value", known=tuple(STYLE_RULES))
        self._schemas, bad_schemas = choices(params, "schemas", known=SCHEMAS)
        if rule == "prompt" and not self._absent:
            bad_rule = ["rule: without unanswerable fields there is none to leave to the prompt."]
        self._is_drawn = page == "image"
        self._says_rule = self._absent > 0 and rule == "question"
        problems = [*unknown_params(params, PARAMS), *bad_number, *bad_page, *bad_tier, *bad_phrasings, *bad_absent]
        problems += [*bad_rule, *bad_style, *bad_schemas]
        if source.revision is not None:
            problems.append("revision: this dataset has none; its package's version says what is drawn.")
        if source.split is not None:
            problems.append("split: this dataset has none; documents that nobody has seen come from another seed.")
        if source.path is not None:
            problems.append("path: this dataset is drawn, and reads no file.")
        if not self._is_drawn and self._tier not in _TEXTS:
            problems.append(f"tier: a page as text has no tier {self._tier}, which is a way to draw.")
        refuse("synthetic_documents", problems)
        if self._tier == "fonts":
            require_other_faces()

    def __iter__(self) -> Iterator[Sample]:
        for number in range(self._documents):
            yield from self._samples_of(f"{self._seed}/{number:06d}")

    def _samples_of(self, document: str) -> Iterator[Sample]:
        page, rng = make_document(document, self._tier)
        images: tuple[Image, ...] = ()
        boxes: dict[str, Box] = {}
        if self._is_drawn:
            drawing = draw(page, rng, document=document, tier=self._tier)
            images, boxes = (Image(data=encode(drawing.pixels)),), drawing.boxes
        text = "" if self._is_drawn else "\n".join(page.lines) + "\n\n"
        for question in self._questions(page, document):
            for number, words in self._words(question, document):
                yield Sample(
                    key=f"{document}/{question.name}" + (f"~{number}" if self._phrasings == "every" else ""),
                    question=text + words,
                    images=images,
                    references=(question.answer,),
                    metadata=self._metadata(page, question, number, boxes),
                )

    def _questions(self, page: Page, document: str) -> Iterator[Question]:
        yield from ask(page)
        yield from ask_absent(page, self._chance(document, "absent"), self._absent)
        for schema in self._schemas:
            yield ask_schema(page, schema)

    def _words(self, question: Question, document: str) -> Iterator[tuple[int, str]]:
        """Yield the number and the text of each wording that is used."""
        count = len(question.wordings())
        drawn = self._chance(document, f"wording/{question.name}").randrange(count)
        chosen = {"first": range(1), "drawn": range(drawn, drawn + 1), "every": range(count)}[self._phrasings]
        for number in chosen:
            yield number, question.asked(number, with_absent=self._says_rule, style=self._style)

    def _metadata(self, page: Page, question: Question, number: int, boxes: dict[str, Box]) -> dict[str, JsonValue]:
        metadata: dict[str, JsonValue] = {
            "doc_class": page.doc_class,
            "tier": self._tier,
            "truth": page.truth,
            "question_type": question.question_type,
            **question.metadata,
        }
        if self._phrasings != "first":
            metadata["phrasing"] = number
        if self._style != "value" and question.said_of:
            metadata |= {"answer_style": self._style, "answer": question.full_answer(self._style)}
        if boxes:
            metadata["boxes"] = {name: list(box) for name, box in boxes.items()}
        if question.span in boxes:
            metadata["answer_bbox"] = list(boxes[question.span])
        return metadata

    def _chance(self, document: str, what: str) -> random.Random:
        """Return a random generator for a single choice, so that choices do not influence each other."""
        return random.Random(f"synthetic_documents/{document}/{what}")  # noqa: S311 - drawn, not secret
