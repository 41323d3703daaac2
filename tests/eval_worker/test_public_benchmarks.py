"""Every public benchmark of the registry on rows in its schema: known answers get known scores."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support.benchmarks import fixture, names, write_hub
from vlmhyperbench.data.enumerating import index
from vlmhyperbench.data.manifest import ManifestSample, manifest_key, read, samples_of
from vlmhyperbench.domain.prompts import render
from vlmhyperbench.domain.specs import ExtractorSpec, MetricSpec, PromptSpec, RunSpec
from vlmhyperbench.registry.loading import load_catalogue
from vlmhyperbench.registry.resolution import resolve_run
from vlmhyperbench.registry.schemas import RunEntry
from vlmhyperbench.scoring.metrics import open_answering, open_failing
from vlmhyperbench.scoring.scores import Row, score
from vlmhyperbench.storage import open_storage

CATALOGUE = load_catalogue(Path(__file__).parents[2] / "registries")
BENCHMARKS = sorted(name for name, task in CATALOGUE.tasks.items() if task.benchmark is not None)


def test_every_benchmark_has_a_fixture_and_every_fixture_a_benchmark() -> None:
    assert names() == BENCHMARKS


@pytest.mark.parametrize("name", BENCHMARKS)
def test_known_answers_get_known_scores(name: str, tmp_path: Path) -> None:
    spec, known = _spec(name), fixture(name)
    samples = _indexed(spec, tmp_path)
    assert len(samples) == len(known.rows)
    assert [sample.error for sample in samples] == [None] * len(samples)
    first = next(sample for sample in samples if sample.index == 0)
    assert isinstance(spec.prompt, PromptSpec)
    assert render(spec.prompt, question=first.question, metadata=dict(first.metadata)).user == known.prompt
    first_extractor, *others = spec.extractors
    assert _scores(spec, first_extractor, samples, known.answers) == pytest.approx(known.scores)
    assert [extractor.name for extractor in others] == list(known.scores_by)
    for extractor in others:
        assert _scores(spec, extractor, samples, known.answers) == pytest.approx(known.scores_by[extractor.name])


def _spec(name: str) -> RunSpec:
    entry = {"target": {"model": "simulated-instant"}, "task": name}
    return resolve_run(CATALOGUE, RunEntry.model_validate(entry))


def _indexed(spec: RunSpec, tmp_path: Path) -> Sequence[ManifestSample]:
    """Index the fixture by the entry of its dataset; only its path is another one."""
    dataset, config = spec.dataset, spec.dataset.params.get("config")
    assert (dataset.path or "").startswith("hf://datasets/")
    folder = write_hub(
        fixture(spec.task),
        tmp_path / "hub",
        split=dataset.split or "test",
        config=config if isinstance(config, str) else None,
    )
    storage = open_storage(str(tmp_path / "storage"))
    result = index(dataset.model_copy(update={"path": str(folder)}), spec.limits, storage)
    return list(samples_of(read(tmp_path / "storage" / manifest_key(result.manifest_id))))


def _scores(
    spec: RunSpec, extractor: ExtractorSpec, samples: Sequence[ManifestSample], answers: Sequence[str]
) -> dict[str, float | None]:
    """Score the answers by every metric, as a run does: by the policies of the task."""
    rows = [
        Row(status="ok", text=answer, references=sample.references, metadata=dict(sample.metadata))
        for sample, answer in zip(samples, answers, strict=True)
    ]
    return {metric.label: _value(spec, metric, extractor, rows) for metric in spec.metrics}


def _value(spec: RunSpec, metric: MetricSpec, extractor: ExtractorSpec, rows: Sequence[Row]) -> float | None:
    opened = open_answering(metric, on_invalid=spec.on_invalid)
    policies = {"on_model_failure": spec.on_model_failure, "on_invalid": spec.on_invalid}
    scores = score(opened, rows, failing=open_failing(metric), extractor=extractor, **policies)
    sums: Counter[str] = Counter()
    for scored in scores:
        sums.update(scored.measure.statistics)
    return opened.combine(sums)
