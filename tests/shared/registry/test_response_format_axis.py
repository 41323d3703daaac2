"""A matrix varies the response format: names, digests and exclusions tell the runs apart."""

from __future__ import annotations

from pathlib import Path

from tests.shared.registry.writing import Shelf, load
from vlmhyperbench.domain.digests import digest_of
from vlmhyperbench.registry.resolution import resolve_experiment
from vlmhyperbench.registry.schemas import ExperimentEntry

TASK = "dataset: d\nprompt: p\nmetrics: [cer]\nreports: [html]\nresponse_format: json_object\n"


def test_response_formats_are_an_axis_and_text_is_no_constraint(tmp_path: Path) -> None:
    catalogue = load(tmp_path, {"tasks/u.yaml": TASK})
    regex = {"type": "regex", "regex": "[0-9]+"}
    named = {"type": "json_schema", "json_schema": {"name": "total", "schema": {"type": "object"}}}
    formats = ["text", "json_object", "json_schema", named, regex]
    experiment = ExperimentEntry.model_validate(
        {
            "matrix": {"targets": [{"model": "m"}], "tasks": ["u"], "response_formats": formats},
            "exclude": [{"response_format": "json_schema"}],
        }
    )
    runs = resolve_experiment(catalogue, experiment, plugins=Shelf())
    pinned = {"type": "json_schema", "json_schema": {"name": "total", "schema": '{"type": "object"}'}}
    assert {name: spec.response_format for name, spec in runs} == {
        "m · u · text": None,
        "m · u · json_object": {"type": "json_object"},
        "m · u · json_schema total": pinned,
        "m · u · regex": regex,
    }
    assert len({digest_of(spec) for _, spec in runs}) == 4
