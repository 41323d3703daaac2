"""Resolution: names become pins, what a run says goes before what its task says, and everything wrong comes at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.shared.registry.writing import SHA, Shelf, load
from tests.support.wording import Wording
from vlmhyperbench.domain.digests import digest_of
from vlmhyperbench.domain.specs import (
    Decoding,
    EndpointTarget,
    ModelTarget,
    PackageRef,
    PromptSpec,
    PromptStrategySpec,
    ReportWriterSpec,
    RunSpec,
)
from vlmhyperbench.registry.catalogue import Catalogue
from vlmhyperbench.registry.errors import RegistryErrors
from vlmhyperbench.registry.resolution import resolve_experiment, resolve_run
from vlmhyperbench.registry.schemas import ExperimentEntry, RunEntry
from vlmhyperbench.registry.validation import validate


def _run(**fields: object) -> RunEntry:
    return RunEntry.model_validate({"target": {"model": "m"}, "task": "t", **fields})


def _spec(catalogue: Catalogue, **fields: object) -> RunSpec:
    return resolve_run(catalogue, _run(**fields), plugins=Shelf())


def _errors(catalogue: Catalogue, **fields: object) -> list[str]:
    with pytest.raises(RegistryErrors) as raised:
        _spec(catalogue, **fields)
    return [str(error) for error in raised.value.errors]


def _experiment(catalogue: Catalogue, **fields: object) -> list[tuple[str, RunSpec]]:
    return resolve_experiment(catalogue, ExperimentEntry.model_validate(fields), plugins=Shelf())


@pytest.fixture
def catalogue(tmp_path: Path) -> Catalogue:
    return load(tmp_path)


def test_a_run_is_pinned_down_to_hashes_and_versions(catalogue: Catalogue) -> None:
    spec = _spec(catalogue)
    assert isinstance(spec.target, ModelTarget)
    assert (spec.target.backend, spec.target.backend_class, spec.target.license) == ("engine", "engine", "Apache-2.0")
    assert spec.target.adapter is not None
    assert (spec.target.adapter.distribution, spec.target.adapter.version) == ("engine-package", "1.2.3")
    assert [(file.role, file.location, file.sha256) for file in spec.target.files] == [
        ("mmproj", "package:weights-package/files/p.gguf", SHA),
        ("weights", "package:weights-package/files/w.gguf", SHA),
    ]
    assert spec.target.engine_params == {"n_ctx": 512, "threads": 2}
    assert spec.dataset.params == {"documents": 3}
    assert spec.dataset.required_fields == ("doc_class",)
    assert [(metric.name, metric.profile, metric.params) for metric in spec.metrics] == [
        ("anls", "paper", {}),
        ("cer", "jiwer", {"a": 1}),
    ]
    assert (spec.scenario.name, spec.scenario.kind, spec.scenario.in_flight) == ("offline", "offline", 4)
    assert (spec.reports, spec.group_by, spec.decoding.max_tokens) == (("html",), ("doc_class",), 32)


def test_what_a_run_says_goes_before_what_its_task_says(tmp_path: Path) -> None:
    catalogue = load(
        tmp_path,
        {"prompts/q.yaml": "user_prompt: other\n", "datasets/e.yaml": "type: drawn\nparams: {a: 1, b: 2}\nlimit: 9\n"},
    )
    spec = _spec(
        catalogue,
        prompt="q",
        decoding={"temperature": 0.5},
        scenario={"name": "single", "requests": 7},
        dataset={"name": "e", "params": {"b": 3}, "limit": 5, "doc_classes": ["x"], "seed": 4, "split": "test"},
        metrics=["anls@inclusive:1.0.0"],
        reports=["markdown"],
        group_by=[],
        response_format={"type": "json_object"},
        limits={"shard_size": 10},
        secrets=["KEY"],
    )
    assert isinstance(spec.prompt, PromptSpec)
    assert spec.prompt.user_prompt == "other"
    assert (spec.decoding.temperature, spec.decoding.max_tokens) == (0.5, 32)
    assert (spec.scenario.kind, spec.scenario.requests) == ("single_stream", 7)
    assert (spec.dataset.params, spec.dataset.limit, spec.dataset.seed) == ({"a": 1, "b": 3}, 5, 4)
    assert (spec.dataset.doc_classes, spec.dataset.split) == (("x",), "test")
    assert [(metric.profile, metric.params) for metric in spec.metrics] == [("inclusive", {"profile": "inclusive"})]
    assert (spec.reports, spec.group_by, spec.secrets) == (("markdown",), (), ("KEY",))
    assert spec.response_format == {"type": "json_object"}
    assert spec.limits.shard_size == 10


STRATEGY = "class_path: few-shot\nversion: 2.0.0\nparams: {shots: 3}\n"


def test_a_prompt_of_a_plugin_is_pinned_with_its_package_and_params(tmp_path: Path) -> None:
    spec = _spec(load(tmp_path, {"prompts/shots.yaml": STRATEGY}), prompt="shots")
    package = PackageRef(distribution="prompt-package", version="1.2.3")
    assert spec.prompt == PromptStrategySpec(
        name="shots", version="2.0.0", class_path="few-shot", package=package, params={"shots": 3}
    )
    assert RunSpec.model_validate_json(spec.model_dump_json()) == spec


def test_what_decides_the_prompts_of_a_plugin_decides_the_digest_of_the_run(tmp_path: Path) -> None:
    spec = _spec(load(tmp_path, {"prompts/shots.yaml": STRATEGY}), prompt="shots")
    prompt = spec.prompt
    assert isinstance(prompt, PromptStrategySpec)
    newer = PackageRef(distribution="prompt-package", version="1.2.4")
    changes: list[dict[str, object]] = [{"package": newer}, {"params": {"shots": 4}}, {"class_path": "other"}]
    digests = {
        digest_of(spec.model_copy(update={"prompt": prompt.model_copy(update=change)})) for change in ({}, *changes)
    }
    assert len(digests) == 4


def test_a_report_of_a_plugin_is_pinned_and_one_of_our_own_goes_by_its_form(tmp_path: Path) -> None:
    files = {
        "reports/suite.yaml": "class_path: junit\nparams: {strict: true}\n",
        "reports/page.yaml": "class_path: html\n",
    }
    spec = _spec(load(tmp_path, files), reports=["suite", "html", "page"])
    package = PackageRef(distribution="report-package", version="1.2.3")
    writer = ReportWriterSpec(name="suite", class_path="junit", package=package, params={"strict": True})
    assert spec.reports == (writer, "html")
    assert RunSpec.model_validate_json(spec.model_dump_json()) == spec


def test_the_same_run_has_the_same_digest_and_another_has_another(catalogue: Catalogue) -> None:
    assert _spec(catalogue) == _spec(catalogue)
    assert _spec(catalogue) != _spec(catalogue, decoding={"seed": 1})


def test_an_endpoint_is_a_target(catalogue: Catalogue) -> None:
    spec = _spec(catalogue, target={"endpoint": "https://example.org/v1", "model_name": "org/model"})
    assert spec.target == EndpointTarget(endpoint="https://example.org/v1", model_name="org/model")


def test_another_backend_and_params_of_one_s_own(catalogue: Catalogue) -> None:
    target = _spec(catalogue, target={"model": "m", "backend": "other", "engine_params": {"n_ctx": 9}}).target
    assert isinstance(target, ModelTarget)
    assert (target.backend, target.backend_class, target.engine_params) == ("other", "engine", {"n_ctx": 9})


def test_the_adapter_is_the_model_s_own_then_a_special_one_then_the_backend_s(tmp_path: Path) -> None:
    special = "specialized_adapters: [{match_models: ['ocr*', 'Fam*'], backend_class: openai}]\n"
    catalogue = load(
        tmp_path,
        {
            "backends/engine.yaml": special,
            "models/ocr-1.yaml": "backends: [engine]\n",
            "models/other.yaml": "backends: [engine]\nfamily: Family\n",
            "models/own.yaml": "backends: [engine]\nfamily: Family\nbackend_class: engine\n",
        },
    )
    classes = {}
    for name in ("m", "ocr-1", "other", "own"):
        target = _spec(catalogue, target={"model": name}).target
        classes[name] = target.backend_class
    assert classes == {"m": "engine", "ocr-1": "openai", "other": "openai", "own": "engine"}


def test_paths_start_at_the_registries(tmp_path: Path) -> None:
    catalogue = load(
        tmp_path,
        {
            "models/x.yaml": f"backends: [engine]\npath: weights\nfiles: {{w: a.gguf}}\nsha256: {{w: {SHA}}}\n",
            "datasets/x.yaml": "type: drawn\npath: ../data\n",
            "datasets/y.yaml": "type: drawn\npath: /data\n",
        },
    )
    spec = _spec(catalogue, target={"model": "x"}, dataset="x")
    assert isinstance(spec.target, ModelTarget)
    assert spec.target.files[0].location == f"{tmp_path}/weights/a.gguf"
    assert spec.dataset.path == f"{tmp_path}/../data"
    assert _spec(catalogue, dataset="y").dataset.path == "/data"


def test_every_unknown_name_is_reported_at_once_with_the_nearest(catalogue: Catalogue, wording: Wording) -> None:
    names = {"prompt": "pp", "dataset": "dd", "metrics": ["anls", "anl"], "reports": ["htm"]}
    wording("\n".join(_errors(catalogue, target={"model": "mm"}, **names)))


def test_an_unknown_task_does_not_hide_the_other_errors(catalogue: Catalogue) -> None:
    errors = _errors(catalogue, task="tt", prompt="pp", dataset={"name": "dd"}, metrics=["anl"], target={"model": "mm"})
    assert [error.partition(":")[0] for error in errors] == ["dataset", "metrics.0", "prompt", "target.model", "task"]
    [error] = _errors(catalogue, task="tt")
    assert error.startswith("task: ")


def test_a_run_keeps_to_what_its_task_supports(tmp_path: Path, wording: Wording) -> None:
    task = """\
dataset: d
prompt: p
metrics: [anls]
reports: [html]
supported_metrics: [anls]
supported_reports: [html]
supported_backends: [engine]
"""
    catalogue = load(tmp_path, {"tasks/t.yaml": task})
    errors = _errors(
        catalogue,
        target={"model": "m", "backend": "other"},
        metrics=["cer"],
        reports=["markdown"],
        scenario="single",
    )
    wording("\n".join(errors))


@pytest.mark.parametrize(
    "fields",
    [
        {"target": {"model": "m", "backend": "vllm"}},
        {"target": {"endpoint": "ftp://x", "model_name": "y"}},
        {"target": {"endpoint": "http://user:pw@x/v1", "model_name": "y"}},
        {"target": {"endpoint": "http://x/v1", "model_name": "y", "backend_class": "openia"}},
        {"metrics": ["anls", "anls"]},
        {"metrics": ["anls@x"]},
        {"metrics": ["anls:9.9.9"]},
        {"scenario": "offlin"},
    ],
)
def test_what_does_not_fit_is_refused(catalogue: Catalogue, fields: dict[str, object], wording: Wording) -> None:
    wording("\n".join(map(str, _errors(catalogue, **fields))))


def test_a_model_runs_on_every_backend_of_the_adapters_that_it_names(tmp_path: Path) -> None:
    others = {"engine-elsewhere": "engine", "third": "openai"}
    changes = {f"backends/{name}.yaml": f"default_backend_class: {kind}\n" for name, kind in others.items()}
    catalogue = load(tmp_path, changes)
    spec = _spec(catalogue, target={"model": "m", "backend": "engine-elsewhere"})
    assert isinstance(spec.target, ModelTarget)
    assert (spec.target.backend, spec.target.backend_class) == ("engine-elsewhere", "engine")
    assert len(_errors(catalogue, target={"model": "m", "backend": "third"})) == 1


def test_two_profiles_of_one_metric_are_two_metrics(catalogue: Catalogue) -> None:
    assert [metric.profile for metric in _spec(catalogue, metrics=["anls", "anls@inclusive"]).metrics] == [
        "paper",
        "inclusive",
    ]


def test_errors_of_a_registered_run_name_its_file(tmp_path: Path, wording: Wording) -> None:
    catalogue = load(tmp_path)
    entry = catalogue.runs["r"]
    emptied = Catalogue(
        roots=catalogue.roots, runs=catalogue.runs, tasks=catalogue.tasks, documents=catalogue.documents
    )
    with pytest.raises(RegistryErrors) as refused:
        resolve_run(emptied, entry, plugins=Shelf())
    wording(refused.value)


def test_an_experiment_lists_runs_by_name_or_in_place(catalogue: Catalogue) -> None:
    inline = {"target": {"model": "m"}, "task": "t", "decoding": {"seed": 1}}
    runs = _experiment(catalogue, runs=["r", {**inline, "name": "mine"}, inline])
    assert [name for name, _ in runs] == ["r", "mine", "m · t"]
    assert runs[1][1].decoding == Decoding(max_tokens=32, temperature=0, seed=1)


def test_a_matrix_is_every_combination_named_by_what_differs(tmp_path: Path) -> None:
    task = "dataset: d\nprompt: p\nmetrics: [cer]\nreports: [html]\nscenarios: [offline, single]\n"
    catalogue = load(tmp_path, {"tasks/u.yaml": task})
    runs = _experiment(
        catalogue,
        matrix={
            "targets": [{"model": "m"}, {"endpoint": "http://x/v1", "model_name": "org/y"}],
            "tasks": ["t", "u"],
            "scenarios": ["offline", {"name": "single", "requests": 3}],
        },
        exclude=[{"task": "u", "scenario": "single"}, {"target": "org/y", "scenario": "single"}],
        defaults={"metrics": ["cer"], "dataset": {"name": "d", "limit": 2}},
    )
    assert [name for name, _ in runs] == [
        "m · t · offline",
        "org/y · t · offline",
        "m · t · single",
        "m · u · offline",
        "org/y · u · offline",
    ]
    assert {spec.dataset.limit for _, spec in runs} == {2}
    assert {len(spec.metrics) for _, spec in runs} == {1}


def test_one_target_after_the_other_is_keeps_the_names_of_target_and_task(catalogue: Catalogue) -> None:
    targets = [{"model": "m"}, {"model": "m", "backend": "other"}]
    names = [name for name, _ in _experiment(catalogue, matrix={"targets": targets, "tasks": ["t"]})]
    assert names == ["m · t", "m · t · other"]


def test_equal_names_are_numbered(catalogue: Catalogue) -> None:
    targets = [{"model": "m"}, {"model": "m", "engine_params": {"n_ctx": 9}}]
    names = [name for name, _ in _experiment(catalogue, matrix={"targets": targets, "tasks": ["t"]})]
    assert names == ["m · t #1", "m · t #2"]


def test_decodings_and_prompts_are_axes_too(tmp_path: Path) -> None:
    catalogue = load(tmp_path, {"prompts/q.yaml": "user_prompt: other\n"})
    matrix = {
        "targets": [{"model": "m"}],
        "tasks": ["t"],
        "prompts": ["p", "q"],
        "decodings": [{"temperature": 0}, {"temperature": 1, "seed": 2}],
    }
    assert [name for name, _ in _experiment(catalogue, matrix=matrix)] == [
        "m · t · p · temperature=0.0",
        "m · t · p · seed=2 temperature=1.0",
        "m · t · q · temperature=0.0",
        "m · t · q · seed=2 temperature=1.0",
    ]


def test_errors_of_a_matrix_point_at_the_axis_once(tmp_path: Path) -> None:
    text = """\
matrix:
  targets:
    - model: m
    - model: mm
  tasks: [t, tt]
  scenarios: [offline, {name: single, seed: 1}, sngle]
  prompts: [p, pp]
defaults:
  metrics: [anl]
  dataset: dd
"""
    with pytest.raises(RegistryErrors) as raised:
        load(tmp_path, {"experiments/x.yaml": text})
    assert [f"{error.file}:{error.line} {error.field}" for error in raised.value.errors] == [
        "experiments/x.yaml:4 matrix.targets.1.model",
        "experiments/x.yaml:5 matrix.tasks.1",
        "experiments/x.yaml:6 matrix.scenarios.2",
        "experiments/x.yaml:7 matrix.prompts.1",
        "experiments/x.yaml:9 defaults.metrics.0",
        "experiments/x.yaml:10 defaults.dataset",
    ]


@pytest.mark.parametrize(
    "fields",
    [
        {"runs": ["rr"]},
        {"runs": ["r", "r"]},
        {"runs": [{"target": {"model": "mm"}, "task": "t"}]},
        {"matrix": {"targets": [{"model": "m"}], "tasks": ["t"]}, "exclude": [{"task": "t"}]},
    ],
)
def test_what_is_wrong_with_an_experiment_is_said(
    catalogue: Catalogue, fields: dict[str, object], wording: Wording
) -> None:
    with pytest.raises(RegistryErrors) as raised:
        _experiment(catalogue, **fields)
    wording(str(raised.value))


def test_errors_inside_a_named_run_point_at_its_name(catalogue: Catalogue, wording: Wording) -> None:
    emptied = Catalogue(roots=catalogue.roots, runs=catalogue.runs, tasks=catalogue.tasks)
    with pytest.raises(RegistryErrors) as refused:
        _experiment(emptied, runs=["r"])
    wording(refused.value)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"runs": ["r"], "matrix": {"targets": [{"model": "m"}], "tasks": ["t"]}},
        {"runs": ["r"], "exclude": [{"task": "t"}]},
        {"runs": ["r"], "defaults": {"prompt": "p"}},
    ],
)
def test_an_experiment_has_runs_in_one_way(fields: dict[str, object], wording: Wording) -> None:
    entry, [problem] = validate(ExperimentEntry, fields)
    assert entry is None
    wording(f"{problem.message} {problem.cure}")


def test_a_matrix_that_is_too_large_is_refused_before_it_is_expanded() -> None:
    matrix = {
        "targets": [{"model": f"m{number}"} for number in range(300)],
        "tasks": [f"t{number}" for number in range(20)],
        "decodings": [{"seed": number} for number in range(50)],
    }
    with pytest.raises(ValueError, match=r"300,000 .* 1,000"):
        ExperimentEntry.model_validate({"matrix": matrix})
