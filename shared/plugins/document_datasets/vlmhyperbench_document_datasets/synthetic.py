"""The dataset `synthetic_documents`: seeded receipts, passports, invoices and tickets, several questions on each."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator

from vlmhyperbench_document_datasets.pages import Page, compose_page, draw_page
from vlmhyperbench_document_datasets.params import choice, integer, refuse, unknown_params
from vlmhyperbench_sdk.protocols import DatasetSource
from vlmhyperbench_sdk.types import Image, JsonValue, Sample

MOST_DOCUMENTS = 1_000_000


class SyntheticDocuments:
    """Draw `documents` pages (default 200) and ask for every field, for the kind, for all text and for JSON.

    Params:
        documents: how many pages; five to eight questions each. The first pages of a longer dataset are the pages of a
            shorter one.
        page: `image` draws the page; `text` puts its text before the question, with no image (a cheap text-only task).

    A document depends on the seed and its own number alone, so keys and pages are the same in any order and on any
    machine. Metadata: `doc_class`; `question_type`, one of `field`, `kind`, `read`, `json`; `field` where one is
    asked for.
    """

    def __init__(self, source: DatasetSource) -> None:
        documents, wrong_number = integer(source.params, "documents", default=200, least=1, most=MOST_DOCUMENTS)
        page, wrong_page = choice(source.params, "page", default="image", known=("image", "text"))
        unknown = unknown_params(source.params, ("documents", "page"))
        refuse("synthetic_documents", [*unknown, *wrong_number, *wrong_page])
        self._seed = source.seed
        self._documents = documents
        self._is_drawn = page == "image"

    def __iter__(self) -> Iterator[Sample]:
        for number in range(self._documents):
            yield from self._samples_of(number)

    def _samples_of(self, number: int) -> Iterator[Sample]:
        document = f"{self._seed}/{number:06d}"
        rng = random.Random(f"synthetic_documents/{document}")  # noqa: S311
        page = compose_page(rng)
        images = (Image(data=draw_page(page, rng)),) if self._is_drawn else ()
        text = "" if self._is_drawn else "\n".join(page.lines) + "\n\n"
        for name, question_type, question, answer in _ask(page):
            metadata: dict[str, JsonValue] = {"doc_class": page.doc_class, "question_type": question_type}
            if question_type == "field":
                metadata["field"] = name
            yield Sample(
                key=f"{document}/{name}",
                question=text + question,
                images=images,
                references=(answer,),
                metadata=metadata,
            )


def _ask(page: Page) -> Iterator[tuple[str, str, str, str]]:
    """Yield (name, question type, question, answer) of one page, in the exact words that the model knows."""
    for field, value in page.fields.items():
        yield field, "field", f"What is the {field}?", value
    yield "kind", "kind", "What kind of document is this?", page.doc_class
    yield "read", "read", "Read the text.", "\n".join(" ".join(line.split()) for line in page.lines)
    yield "json", "json", "Extract all fields as JSON.", json.dumps({"kind": page.doc_class, **page.fields})
