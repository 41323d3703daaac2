"""Every public benchmark of the registry on rows in its schema: known answers get known scores."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support.benchmarks import fixture, names, write_hub
from vlmhyperbench.data.enumerating import index
from vlmhyperbench.data.manifest import ManifestSample, manifest_key, read, samples_of
from vlmhyperbench.domain.prompts import render
from vlmhyperbench.domain.specs import MetricSpec, PromptSpec, RunSpec
from vlmhyperbench.registry.loading import load_catalogue
from vlmhyperbench.registry.resolution import resolve_run
from vlmhyperbench.registry.schemas import RunEntry
from vlmhyperbench.scoring.extraction import extract
from vlmhyperbench.scoring.metrics import open_metric
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
    scores = {metric.label: _score(spec, metric, samples, known.answers) for metric in spec.metrics}
    assert scores == pytest.approx(known.scores)


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


def _score(
    spec: RunSpec, metric: MetricSpec, samples: Sequence[ManifestSample], answers: Sequence[str]
) -> float | None:
    """Score by the first extractor; an answer that it cannot read counts as the policy of the task says."""
    texts = [text or "" for text in extract(answers, extractor=spec.extractors[0]).texts]
    opened = open_metric(metric, optional={"on_invalid": spec.on_invalid})
    measures = opened.measure(
        texts, [sample.references for sample in samples], metadata=[dict(sample.metadata) for sample in samples]
    )
    return opened.combine({name: sum(column) for name, column in measures.statistics.items()})
