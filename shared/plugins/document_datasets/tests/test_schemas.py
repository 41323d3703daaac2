"""JSON by the name of its schema: every reference keeps to it, and says what the page says."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import jsonschema
import pytest

from vlmhyperbench_document_datasets.synthetic import SyntheticDocuments
from vlmhyperbench_sdk.protocols import DatasetSource
from vlmhyperbench_sdk.types import Sample


def _samples(name: str, tier: str = "clean", documents: int = 60) -> list[Sample]:
    params = {"documents": documents, "page": "text", "tier": tier, "schemas": [name]}
    samples = SyntheticDocuments(DatasetSource(seed=6, params=params))
    return [sample for sample in samples if sample.metadata["question_type"] == "schema"]


@pytest.mark.parametrize("tier", ["clean", "dense"])
@pytest.mark.parametrize("name", ["pairs", "nested", "typed"])
def test_every_reference_keeps_to_its_schema_and_an_empty_object_does_not(name: str, tier: str) -> None:
    samples = _samples(name, tier)
    assert len(samples) == 60
    for sample in samples:
        assert f'"{name}"' in sample.question
        validator = jsonschema.Draft202012Validator(sample.metadata["json_schema"])
        validator.check_schema(sample.metadata["json_schema"])
        validator.validate(json.loads(sample.references[0]))
        assert not validator.is_valid({})


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("pairs", lambda written: written["fields"].append({"name": "CLIENT", "value": "x"})),
        ("pairs", lambda written: written["fields"].append(written["fields"][0])),
        ("nested", lambda written: written["document"]["content"].update(CLIENT="x")),
        ("typed", lambda written: written.update(client="x")),
    ],
)
def test_other_names_and_a_pair_twice_break_a_schema(name: str, change: Callable[[Any], None]) -> None:
    sample = next(entry for entry in _samples(name, documents=20) if entry.metadata["doc_class"] == "receipt")
    written = json.loads(sample.references[0])
    change(written)
    assert not jsonschema.Draft202012Validator(sample.metadata["json_schema"]).is_valid(written)


def test_only_the_typed_schema_says_which_kind_of_document_it_is_of() -> None:
    for name, schemas in (("pairs", 1), ("nested", 1), ("typed", 4)):
        assert len({json.dumps(sample.metadata["json_schema"]) for sample in _samples(name)}) == schemas


def test_pairs_keep_the_order_of_the_page() -> None:
    for sample in _samples("pairs"):
        truth: Any = sample.metadata["truth"]
        written = json.loads(sample.references[0])
        assert {"kind": written["kind"], **{entry["name"]: entry["value"] for entry in written["fields"]}} == truth
        assert [entry["name"] for entry in written["fields"]] == list(truth)[1:]


def test_a_nested_document_holds_the_fields_as_they_are_printed() -> None:
    for sample in _samples("nested"):
        document = json.loads(sample.references[0])["document"]
        assert {"kind": document["kind"], **document["content"]} == sample.metadata["truth"]


@pytest.mark.parametrize("tier", ["clean", "dense"])
def test_typed_values_are_numbers_dates_and_nulls(tier: str) -> None:
    nulls = 0
    for sample in _samples("typed", tier):
        truth: Any = sample.metadata["truth"]
        for name, value in json.loads(sample.references[0]).items():
            if name == "items" and tier == "dense":
                assert [f"{entry['sum']:.2f}" for entry in value] == [entry["sum"] for entry in truth["items"]]
                assert [str(entry["count"]) for entry in value] == [entry["count"] for entry in truth["items"]]
            elif value is None:
                assert name not in truth
                nulls += 1
            elif name in ("date", "due", "born"):
                assert value == "-".join(reversed(truth[name].split(".")))
            elif isinstance(value, float):
                assert f"{value:.2f}" == truth[name]
            else:
                assert str(value) == truth[name]
    assert nulls > 10


def test_the_platform_s_own_question_for_json_stays_beside_them() -> None:
    samples = list(SyntheticDocuments(DatasetSource(params={"documents": 1, "schemas": ["pairs", "typed"]})))
    assert [sample.key.rpartition("/")[2] for sample in samples][-3:] == ["json", "schema-pairs", "schema-typed"]
