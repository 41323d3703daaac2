"""Builders: a folder of registry files that is right, to which a test adds what is wrong."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from vlmhyperbench.domain.specs import PackageRef
from vlmhyperbench.registry.catalogue import Catalogue
from vlmhyperbench.registry.errors import RegistryErrors
from vlmhyperbench.registry.loading import load_catalogue
from vlmhyperbench_sdk.discovery import Group
from vlmhyperbench_sdk.suggestions import did_you_mean

SHA = "a" * 64

FILES: Mapping[str, str] = {
    "models/m.yaml": f"""\
backends: [engine, other]
package: weights-package
files: {{weights: files/w.gguf, mmproj: files/p.gguf}}
sha256: {{weights: {SHA}, mmproj: {SHA}}}
engine_params: {{n_ctx: 512}}
license: Apache-2.0
quantization: F16
""",
    "backends/engine.yaml": "engine_params: {n_ctx: 256, threads: 2}\n",
    "backends/other.yaml": "default_backend_class: engine\n",
    "datasets/d.yaml": "type: drawn\nparams: {documents: 3}\nseed: 1\n",
    "prompts/p.yaml": 'user_prompt: "{{ question }}"\n',
    "metrics/anls.yaml": "class_path: anls\nprofile: paper\nprofiles: {inclusive: {profile: inclusive}}\n",
    "metrics/cer.yaml": "class_path: cer\nprofile: jiwer\nparams: {a: 1}\n",
    "reports/html.yaml": "class_path: html\n",
    "reports/markdown.yaml": "class_path: markdown\n",
    "scenarios/offline.yaml": "kind: offline\nin_flight: 4\n",
    "scenarios/single.yaml": "kind: single_stream\n",
    "tasks/t.yaml": """\
dataset: d
prompt: p
metrics: [anls, cer]
reports: [html]
scenarios: [offline, single]
group_by: [doc_class]
required_fields: [doc_class]
decoding: {max_tokens: 32, temperature: 0}
""",
    "runs/r.yaml": "target: {model: m}\ntask: t\n",
    "experiments/e.yaml": "runs: [r]\n",
}


class Shelf:
    """Plugins that a test declares: group → name → distribution."""

    known: Mapping[str, Mapping[str, str]] = {
        "aggregations": dict.fromkeys(("concat", "vote", "synthesis", "template"), "pipeline-package"),
        "backends": {"engine": "engine-package", "openai": "openai-package"},
        "datasets": {"drawn": "data-package"},
        "metrics": {"anls": "metric-package", "cer": "metric-package"},
        "prompts": {"few-shot": "prompt-package"},
        "reports": {"junit": "report-package", "html": "vlmhyperbench", "markdown": "vlmhyperbench"},
    }

    def problem_with(self, group: Group, name: str) -> tuple[str, str] | None:
        if name in self.known[group]:
            return None
        return f"no {group[:-1]} is registered as {name!r}.", did_you_mean(name, self.known[group])

    def package_of(self, group: Group, name: str) -> PackageRef | None:
        distribution = self.known[group].get(name)
        return PackageRef(distribution=distribution, version="1.2.3") if distribution else None

    def pin(self, group: Group, name: str) -> PackageRef | None:
        return self.package_of(group, name)


def write(root: Path, changes: Mapping[str, str | None] | None = None) -> Path:
    """Write the files, with some of them other, more or missing."""
    for name, text in {**FILES, **(changes or {})}.items():
        if text is not None:
            file = root / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
    return root


def load(root: Path, changes: Mapping[str, str | None] | None = None, run_mode: str = "prod") -> Catalogue:
    """Write and load."""
    return load_catalogue(write(root, changes), run_mode, plugins=Shelf())


def errors_of(root: Path, changes: Mapping[str, str | None], run_mode: str = "prod") -> list[str]:
    """Write and load what is wrong, and return every error as it is shown."""
    try:
        load(root, changes, run_mode)
    except RegistryErrors as error:
        return [str(problem) for problem in error.errors]
    return []
