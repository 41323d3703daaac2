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
    "text",
    [
        "target: {models: m}\ntask: t\n",
        "task: t\n",
        "target: {model: m}\ntask: t\ndecoding:\n  temperatures: 0\n",
        "target: {model: m}\ntask: t\ndecoding: {temperature: 3}\n",
        "target: {model: m}\ntask: t\ndescription: 7\n",
        "target: {model: m}\ntask: t\nmetrics: ['a b']\n",
        "target: {model: m}\ntask: t\ndataset: {name: d, limits: 3}\n",
        "target: {model: m}\ntask: t\ndataset: 3\n",
        "target: {endpoint: 'http://h/v1'}\ntask: t\n",
        "target: {model: m}\ntask: t\nsecrets: [../key]\n",
        "target: m\ntask: t\n",
    ],
)
def test_a_wrong_value_is_named_with_its_place(tmp_path: Path, text: str, wording: Wording) -> None:
    wording("\n".join(map(str, errors_of(tmp_path, {"runs/x.yaml": text}))))


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
    "text",
    [
        f"backends: [engine]\nfiles: {{w: a}}\nsha256: {{w: {SHA}}}\n",
        f"backends: [engine]\npath: x\npackage: y\nfiles: {{w: a}}\nsha256: {{w: {SHA}}}\n",
        "backends: [engine]\npath: x\nfiles: {w: a}\n",
        f"backends: [engine]\npath: x\nfiles: {{w: a/../../b}}\nsha256: {{w: {SHA}}}\n",
        f"backends: [engine]\npath: x\nfiles: {{w: /etc/passwd}}\nsha256: {{w: {SHA}}}\n",
        "backends: [engine]\npath: x\nfiles: {w: a}\nsha256: {w: abc}\n",
        "backends: []\n",
        "backends: [enigne]\n",
        "backends: [engine]\ns3: {prefix: 's3://NO_BUCKET/reader/'}\n",
        f"backends: [engine]\ns3: {{prefix: 's3://models/reader'}}\nfiles: {{w: a}}\nsha256: {{w: {SHA}}}\n",
        "backends: [engine]\nrecipe: {source: other}\n",
        "backends: [engine]\nrecipe: {source: other, quantize: Q9}\n",
        "backends: [engine]\nrecipe: {source: other, quantize: Q8_0, pre_tokenizer: gpt-2}\n",
        "backends: [engine]\nrecipe: {source: other, convert: Q8_0, quantize: Q4_0}\n",
        "backends: [engine]\npath: x\nrecipe: {source: other, convert: F16}\n",
    ],
)
def test_a_model_s_files_are_pinned_and_stay_in_their_folder(tmp_path: Path, text: str, wording: Wording) -> None:
    errors = errors_of(tmp_path, {"models/x.yaml": text})
    wording("\n".join(map(str, errors)))


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
    pinned = f"source: {{type: local, path: ../d, sha256: {'b' * 64}}}\n"
    assert errors_of(tmp_path, {**files, "packages/d.yaml": pinned}) == []


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
    unknown = {"packages/other.yaml": "source: {type: pypi, name: other, version: '1'}\n"}
    known = {"packages/other.yaml": f"{unknown['packages/other.yaml']}plugins: {{backends: [engines]}}\n"}
    backend = {"backends/engine.yaml": "default_adapter_package: other\n"}
    assert errors_of(tmp_path / "unknown", {**unknown, **backend}) == []
    [wrong] = errors_of(tmp_path / "backend", {**known, **backend})
    wording(wrong)
    adapter = "backends: [engine]\nbackend_class: engine\nadapter_package: "
    [wrong] = errors_of(tmp_path / "model", {**known, "models/x.yaml": f"{adapter}other\n"})
    wording(wrong)
    *_, wrong = errors_of(tmp_path / "missing", {"models/x.yaml": f"{adapter}none\n"})
    assert "x.yaml:3: adapter_package: " in wrong
    [wrong] = errors_of(
        tmp_path / "alone", {**unknown, "models/x.yaml": "backends: [engine]\nadapter_package: other\n"}
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
    ("file", "text"),
    [
        ("backends/x.yaml", "default_backend_class: engines\n"),
        ("backends/x.yaml", "description: x\n"),
        ("backends/engine.yaml", "default_adapter_package: pk\n"),
        ("backends/engine.yaml", "specialized_adapters:\n  - {match_models: [a*], backend_class: x}\n"),
        ("models/x.yaml", "backends: [engine]\nbackend_class: x\n"),
        ("datasets/x.yaml", "type: drwan\n"),
        ("datasets/x.yaml", "type: drawn\npath: https://host/x\n"),
        ("datasets/x.yaml", "type: drawn\npath: s3://bucket/../x\n"),
        ("metrics/x.yaml", "class_path: x\nprofile: y\n"),
        ("reports/x.yaml", "class_path: x\n"),
        ("reports/x.yaml", "class_path: html\nparams: {a: 1}\n"),
        ("prompts/x.yaml", "class_path: few-shots\n"),
        ("prompts/x.yaml", "class_path: few-shot\npackage: pk\n"),
        ("prompts/x.yaml", "class_path: few-shot\nfixed_prompt: x\n"),
        ("prompts/x.yaml", "user_prompt: x\nparams: {a: 1}\n"),
        ("prompts/x.yaml", "user_prompt: x\ntype_mapping:\n  a: {system_prompt: '{{ x }}'}\n"),
        ("tasks/x.yaml", "dataset: d\nprompt: pp\nmetrics: [anls]\n"),
        ("tasks/x.yaml", "dataset: d\nprompt: p\nmetrics: [anls@paperr]\n"),
        ("tasks/x.yaml", "dataset: d\nprompt: p\nmetrics: ['anls:2.0.0']\n"),
        ("tasks/x.yaml", "dataset: d\nprompt: p\nmetrics: [anls]\nsupported_metrics: [cer]\n"),
        ("tasks/x.yaml", TASK + "supported_metrics: [cer, x]\n"),
        ("tasks/x.yaml", TASK + "supported_reports: [html]\n"),
        ("tasks/x.yaml", TASK + "reports: [html]\nsupported_reports: [html, x]\n"),
        ("tasks/x.yaml", TASK + "supported_backends: [x]\n"),
        ("tasks/x.yaml", TASK + "scenarios: [x]\n"),
    ],
)
def test_every_reference_is_checked_before_anything_runs(
    tmp_path: Path, file: str, text: str, wording: Wording
) -> None:
    errors = errors_of(tmp_path, {file: text})
    wording("\n".join(map(str, errors)))


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
