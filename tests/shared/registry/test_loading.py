"""Loading a folder: every file is checked, everything wrong is said at once, by file and line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.shared.registry.writing import FILES, SHA, Shelf, errors_of, load, write
from tests.support.wording import Wording
from vlmhyperbench.errors import InvalidInput, NotFound
from vlmhyperbench.registry.errors import RegistryError, RegistryErrors
from vlmhyperbench.registry.loading import load_catalogue

TASK = "dataset: d\nprompt: p\nmetrics: [cer]\n"


def test_entries_are_found_by_kind_and_name(tmp_path: Path) -> None:
    catalogue = load(tmp_path)
    assert catalogue.get("models", "m").name == "m"
    assert sorted(catalogue.of("metrics")) == ["anls", "cer"]
    assert catalogue.tasks["t"].version == "1.0.0"
    assert catalogue.warnings == ()
    location = catalogue.location_of("tasks", "t", "metrics", 1)
    assert location is not None
    assert (location.file, location.line) == ("tasks/t.yaml", 3)
    assert catalogue.location_of("tasks", "none") is None


def test_an_unknown_name_or_kind_is_refused_with_the_nearest(tmp_path: Path, wording: Wording) -> None:
    catalogue = load(tmp_path)
    with pytest.raises(NotFound) as refused:
        catalogue.get("metrics", "anl")
    wording(refused.value)
    with pytest.raises(NotFound) as refused:
        catalogue.get("metric", "anls")
    wording(refused.value)


def test_an_unknown_key_is_refused_with_the_nearest_and_its_line(tmp_path: Path, wording: Wording) -> None:
    text = "dataset: d\nprompt: p\nmetrics: [anls]\nscenario: [offline]\n"
    [error] = errors_of(tmp_path, {"tasks/t.yaml": text})
    wording(error)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("target: {models: m}\ntask: t\n", "runs/x.yaml:1: target.models: there is no such key. Did you mean model"),
        ("target: {models: m}\ntask: t\n", "runs/x.yaml:1: target.model: it is missing. Add it."),
        ("task: t\n", "runs/x.yaml:1: target: it is missing. Add it."),
        (
            "target: {model: m}\ntask: t\ndecoding:\n  temperatures: 0\n",
            "x.yaml:4: decoding.temperatures: there is no such",
        ),
        (
            "target: {model: m}\ntask: t\ndecoding: {temperature: 3}\n",
            "temperature: input should be less than or equal to",
        ),
        (
            "target: {model: m}\ntask: t\ndescription: 7\n",
            "description: input should be a valid string (it is 7). Put it",
        ),
        ("target: {model: m}\ntask: t\nmetrics: ['a b']\n", "x.yaml:3: metrics.0: it is no metric"),
        (
            "target: {model: m}\ntask: t\ndataset: {name: d, limits: 3}\n",
            "dataset.limits: there is no such key. Did you mean limit",
        ),
        ("target: {model: m}\ntask: t\ndataset: 3\n", "x.yaml:3: dataset: input should be"),
        ("target: {endpoint: 'http://h/v1'}\ntask: t\n", "x.yaml:1: target.model_name: it is missing"),
        ("target: {model: m}\ntask: t\nsecrets: [../key]\n", "secrets.0: it is no name of a secret"),
        ("target: m\ntask: t\n", "x.yaml:1: target: input should be a valid dictionary"),
    ],
)
def test_a_wrong_value_is_named_with_its_place(tmp_path: Path, text: str, message: str) -> None:
    assert any(message in error for error in errors_of(tmp_path, {"runs/x.yaml": text})), errors_of(tmp_path, {})


def test_all_errors_of_all_files_come_at_once_and_none_twice(tmp_path: Path) -> None:
    errors = errors_of(
        tmp_path,
        {
            "tasks/t.yaml": "dataset: dd\nprompt: p\nmetrics: [anls, wer]\nreports: [pdf]\n",
            "metrics/cer.yaml": "class_path: cer\nprofil: x\n",
            "datasets/d.yaml": "type: drawn\nparams: {a: [}\n",
            "runs/r.yaml": "target: {model: mm}\ntask: t\n",
        },
    )
    assert [error.partition(" ")[0] for error in errors] == [
        "datasets/d.yaml:2:",
        "metrics/cer.yaml:1:",
        "metrics/cer.yaml:2:",
        "runs/r.yaml:1:",
        "tasks/t.yaml:1:",
        "tasks/t.yaml:3:",
        "tasks/t.yaml:4:",
    ]
    assert "'dd'" in errors[4]


def test_a_broken_entry_is_one_error_and_not_one_for_each_reference_to_it(tmp_path: Path) -> None:
    assert len(errors_of(tmp_path, {"prompts/p.yaml": "user_prompt: [\n"})) == 1
    assert len(errors_of(tmp_path, {"prompts/p.yaml": 'user_prompt: "{{ questions }}"\n'})) == 1


def test_files_that_are_no_entries_are_refused(tmp_path: Path, wording: Wording) -> None:
    (tmp_path.parent / "outside.yaml").write_text("kind: offline\n")
    (tmp_path / "scenarios").mkdir()
    (tmp_path / "scenarios" / "link.yaml").symlink_to(tmp_path.parent / "outside.yaml")
    (tmp_path / "scenarios" / "loop.yaml").symlink_to("loop.yaml")
    errors = errors_of(
        tmp_path,
        {
            "task/x.yaml": "a: 1\n",
            "scenarios/other.yml": "kind: offline\n",
            "scenarios/a b.yaml": "kind: offline\n",
            "scenarios/.hidden.yaml": "not: read\n",
            "scenarios/notes.md": "not read",
            "schemas/x.yaml": "not: read\n",
            "stray.yaml": "kind: offline\n",
        },
    )
    assert len(errors) == 6
    wording("\n".join(errors))


def test_the_name_in_a_file_is_the_name_of_the_file(tmp_path: Path, wording: Wording) -> None:
    [error] = errors_of(tmp_path, {"runs/r.yaml": "name: q\ntarget: {model: m}\ntask: t\n"})
    wording(error)
    assert errors_of(tmp_path, {"runs/r.yaml": "name: r\ntarget: {model: m}\ntask: t\n"}) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"backends: [engine]\nfiles: {{w: a}}\nsha256: {{w: {SHA}}}\n", "either a path"),
        (f"backends: [engine]\npath: x\npackage: y\nfiles: {{w: a}}\nsha256: {{w: {SHA}}}\n", "either a path"),
        ("backends: [engine]\npath: x\nfiles: {w: a}\n", "name different roles: w"),
        (f"backends: [engine]\npath: x\nfiles: {{w: a/../../b}}\nsha256: {{w: {SHA}}}\n", "leaves its folder: w"),
        (
            f"backends: [engine]\npath: x\nfiles: {{w: /etc/passwd}}\nsha256: {{w: {SHA}}}\n",
            "files.w: a file of a model is given relative",
        ),
        ("backends: [engine]\npath: x\nfiles: {w: a}\nsha256: {w: abc}\n", "sha256.w: it is no SHA-256"),
        ("backends: []\n", "backends: tuple should have at least 1 item"),
        ("backends: [enigne]\n", "backends.0: There is no backend called 'enigne'. Did you mean engine"),
    ],
)
def test_a_model_s_files_are_pinned_and_stay_in_their_folder(tmp_path: Path, text: str, message: str) -> None:
    errors = errors_of(tmp_path, {"models/x.yaml": text})
    assert any(message in error for error in errors), errors


def test_a_missing_folder_and_a_wrong_mode_are_refused(tmp_path: Path, wording: Wording) -> None:
    with pytest.raises(NotFound) as refused:
        load_catalogue(tmp_path / "none")
    wording(refused.value)
    with pytest.raises(InvalidInput) as refused:
        load_catalogue(tmp_path, "debug")
    wording(refused.value)


def test_deprecated_keys_are_read_with_a_warning(tmp_path: Path, wording: Wording) -> None:
    catalogue = load(
        tmp_path,
        {
            "models/x.yaml": "framework: engine\nparameters: {n_ctx: 1}\n",
            "datasets/x.yaml": "iterator_class: drawn\n",
            "runs/x.yaml": "target: {model: m}\nml_task: t\ngeneration: {max_tokens: 9}\n",
        },
    )
    assert catalogue.models["x"].backends == ("engine",)
    assert catalogue.models["x"].engine_params == {"n_ctx": 1}
    assert catalogue.datasets["x"].type == "drawn"
    assert catalogue.runs["x"].task == "t"
    assert len(catalogue.warnings) == 4
    wording("\n".join(sorted(catalogue.warnings)))


def test_a_deprecated_key_together_with_the_current_one_is_an_error(tmp_path: Path, wording: Wording) -> None:
    [error] = errors_of(tmp_path, {"models/x.yaml": "framework: engine\nbackends: [engine]\n"})
    wording(error)


def test_packages_are_pinned_in_prod(tmp_path: Path, wording: Wording) -> None:
    files: dict[str, str | None] = {
        "packages/a.yaml": "source: {type: git, url: 'https://host/a.git', ref: main}\n",
        "packages/b.yaml": f"source: {{type: git, url: 'https://host/b.git', ref: {'a' * 40}}}\n",
        "packages/c.yaml": "source: {type: pypi, name: c, version: 1.0.0}\n",
    }
    [warning] = load(tmp_path, files).warnings
    wording(warning)
    local = {**files, "packages/d.yaml": "source: {type: local, path: ../d}\n"}
    (error,) = errors_of(tmp_path, local)
    wording(error)
    assert errors_of(tmp_path, local, "dev") == []


def test_a_plugin_comes_from_the_package_that_the_entry_names(tmp_path: Path, wording: Wording) -> None:
    metric = "class_path: cer\nprofile: jiwer\npackage: {}\n"
    packages: dict[str, str | None] = {
        "packages/metric-package.yaml": "source: {type: pypi, name: metric-package, version: 1.0.0}\n",
        "packages/other-package.yaml": "source: {type: pypi, name: other-package, version: 1.0.0}\n",
    }
    assert errors_of(tmp_path, {**packages, "metrics/cer.yaml": metric.format("metric-package")}) == []
    for package in ("other-package", "no-package"):
        wording("\n".join(errors_of(tmp_path, {**packages, "metrics/cer.yaml": metric.format(package)})))


def test_an_adapter_comes_from_the_package_that_is_named_for_it(tmp_path: Path, wording: Wording) -> None:
    package = {"packages/other.yaml": "source: {type: pypi, name: other, version: '1'}\n"}
    backend = {**package, "backends/engine.yaml": "default_adapter_package: other\n"}
    [wrong] = errors_of(tmp_path / "backend", backend)
    wording(wrong)
    adapter = "backends: [engine]\nbackend_class: engine\nadapter_package: "
    [wrong] = errors_of(tmp_path / "model", {**package, "models/x.yaml": f"{adapter}other\n"})
    wording(wrong)
    *_, wrong = errors_of(tmp_path / "missing", {"models/x.yaml": f"{adapter}none\n"})
    assert "x.yaml:3: adapter_package: " in wrong
    [wrong] = errors_of(
        tmp_path / "alone", {**package, "models/x.yaml": "backends: [engine]\nadapter_package: other\n"}
    )
    assert "backend_class" in wrong


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("tasks/t.yaml", "metadata: {team: documents}\n"),
        ("packages/p.yaml", "source: {type: pypi, name: p, version: '1'}\ntier: core\n"),
        ("packages/p.yaml", "source: {type: local, path: ../p, editable: true}\n"),
    ],
)
def test_a_key_that_nothing_reads_is_refused(tmp_path: Path, file: str, text: str, wording: Wording) -> None:
    [wrong] = errors_of(tmp_path, {file: FILES.get(file, "") + text}, "dev")
    wording(wrong)


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        (
            "backends/x.yaml",
            "default_backend_class: engines\n",
            "x.yaml:1: default_backend_class: no backend is registered",
        ),
        ("backends/x.yaml", "description: x\n", "no backend is registered as 'x'"),
        (
            "backends/engine.yaml",
            "default_adapter_package: pk\n",
            "default_adapter_package: There is no package called",
        ),
        (
            "backends/engine.yaml",
            "specialized_adapters:\n  - {match_models: [a*], backend_class: x}\n",
            "engine.yaml:2: ",
        ),
        (
            "models/x.yaml",
            "backends: [engine]\nbackend_class: x\n",
            "x.yaml:2: backend_class: no backend is registered",
        ),
        (
            "datasets/x.yaml",
            "type: drwan\n",
            "x.yaml:1: type: no dataset is registered as 'drwan'. Did you mean drawn?",
        ),
        ("datasets/x.yaml", "type: drawn\npath: s3://bucket/x\n", "x.yaml:2: path: 's3://bucket/x' is no folder"),
        ("metrics/x.yaml", "class_path: x\nprofile: y\n", "class_path: no metric is registered as 'x'"),
        ("reports/x.yaml", "class_path: x\n", "class_path: no report is registered as 'x'"),
        ("reports/x.yaml", "class_path: html\nparams: {a: 1}\n", "x.yaml"),
        ("prompts/x.yaml", "class_path: few-shots\n", "x.yaml:1: class_path: no prompt is registered as 'few-shots'"),
        ("prompts/x.yaml", "class_path: few-shot\npackage: pk\n", "package: There is no package called 'pk'"),
        ("prompts/x.yaml", "class_path: few-shot\nfixed_prompt: x\n", "x.yaml"),
        ("prompts/x.yaml", "user_prompt: x\nparams: {a: 1}\n", "x.yaml"),
        (
            "prompts/x.yaml",
            "user_prompt: x\ntype_mapping:\n  a: {system_prompt: '{{ x }}'}\n",
            "x.yaml:3: type_mapping.a.",
        ),
        (
            "tasks/x.yaml",
            "dataset: d\nprompt: pp\nmetrics: [anls]\n",
            "x.yaml:2: prompt: There is no prompt called 'pp'",
        ),
        ("tasks/x.yaml", "dataset: d\nprompt: p\nmetrics: [anls@paperr]\n", "no profile 'paperr'. Did you mean paper"),
        ("tasks/x.yaml", "dataset: d\nprompt: p\nmetrics: ['anls:2.0.0']\n", "has the version 1.0.0, not 2.0.0"),
        (
            "tasks/x.yaml",
            "dataset: d\nprompt: p\nmetrics: [anls]\nsupported_metrics: [cer]\n",
            "not among its supported",
        ),
        ("tasks/x.yaml", TASK + "supported_metrics: [cer, x]\n", "supported_metrics.1: "),
        ("tasks/x.yaml", TASK + "supported_reports: [html]\n", "not among its supported"),
        ("tasks/x.yaml", TASK + "reports: [html]\nsupported_reports: [html, x]\n", "reports.1"),
        ("tasks/x.yaml", TASK + "supported_backends: [x]\n", "supported_backends.0: "),
        ("tasks/x.yaml", TASK + "scenarios: [x]\n", "scenarios.0: There is no scenario"),
    ],
)
def test_every_reference_is_checked_before_anything_runs(tmp_path: Path, file: str, text: str, message: str) -> None:
    errors = errors_of(tmp_path, {file: text})
    assert any(message in error for error in errors), errors


def test_errors_are_sorted_by_file_and_line_and_shown_on_lines() -> None:
    errors = RegistryErrors(
        [
            RegistryError(file="b", line=1, message="second."),
            RegistryError(file="a", line=9, message="first.", cure="Mend it."),
            RegistryError(file="b", line=1, message="second."),
            RegistryError(field="target", message="no file."),
        ]
    )
    assert str(errors) == "target: no file.\na:9: first. Mend it.\nb:1: second."
    assert len(errors.errors) == 3


def test_a_relative_path_of_registries_is_made_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "registries")
    monkeypatch.chdir(tmp_path)
    assert load_catalogue(Path("registries"), plugins=Shelf()).roots == (tmp_path / "registries",)
