"""Configuration and provenance: weights, engine, machine, prompt and metric versions behind every number."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

from vlmhyperbench.domain.identity import ONLY_DECLARED, is_declared
from vlmhyperbench.domain.publishing import public_spec
from vlmhyperbench.domain.spec_values import name_of, values_of
from vlmhyperbench.domain.specs import AnyPrompt, ImportTarget, ModelTarget, PromptSpec, RunSpec
from vlmhyperbench.reports.document import Block, Column, Facts, Listing, Section, Table
from vlmhyperbench.reports.sections.cost import prices_in_words
from vlmhyperbench.reports.sections.taking import taking_items
from vlmhyperbench.reports.sections.wording import path_of, plain, plural, size
from vlmhyperbench.summaries.evidence import RunEvidence
from vlmhyperbench.summaries.records import ClaimEvidence
from vlmhyperbench.summaries.summary import RunSummary
from vlmhyperbench_sdk.types import JsonObject, JsonValue


def configuration(summary: RunSummary, run: RunEvidence) -> Section:
    """Return the section on what was requested, with the first prompt as it was sent."""
    spec = summary.spec
    prompt = spec.prompt
    prompts: list[tuple[str, str | None]] = []
    if isinstance(prompt, PromptSpec):
        prompts = [
            ("System prompt", prompt.fixed_system_prompt or prompt.system_prompt),
            ("Prompt", prompt.fixed_prompt or prompt.user_prompt),
        ]
    return Section(
        name="configuration",
        title="Configuration",
        lead="The settings of the run, as they were submitted; its digest identifies them.",
        blocks=(
            Facts(title="", items=configuration_items(spec)),
            *(Listing(title=title, text=text) for title, text in prompts if text is not None),
            *_rendered(run),
            *_origins(run),
        ),
        is_collapsed=True,
    )


def configuration_items(spec: RunSpec) -> tuple[tuple[str, str], ...]:
    """List the settings of a run spec, in the same order for every run, so that runs can be compared."""
    target = spec.target
    dataset = spec.dataset
    return (
        ("target", f"{target.model} {target.version}" if isinstance(target, ModelTarget) else target.served_name),
        ("through", f"{path_of(spec)} ({target.backend_class})"),
        ("quantization", (target.quantization if isinstance(target, ModelTarget) else None) or "–"),
        ("engine parameters", plain(target.engine_params)),
        ("task", f"{spec.task} {spec.task_version}" + (f" ({spec.category})" if spec.category else "")),
        ("data set", f"{dataset.name} {dataset.version}, seed {dataset.seed}, limit {dataset.limit or 'none'}"),
        ("data set parameters", plain(dataset.params)),
        *taking_items(dataset),
        *_asking(spec),
        ("prices", prices_in_words(spec)),
        ("model failures count as", "wrong" if spec.on_model_failure == "zero" else "unscored"),
        ("metrics", ", ".join(f"{m.label}:{m.version}" for m in spec.metrics)),
        ("answers are read by", ", ".join(extractor.label for extractor in spec.extractors)),
        ("answers that cannot be read count as", "wrong" if spec.on_invalid == "zero" else "unscored"),
    )


def provenance(run: RunSummary, *, name: str = "provenance", title: str = "Provenance") -> Section:
    """Return the section on what was used."""
    environments = ", ".join(dict.fromkeys(metric.environment for metric in run.described))
    phases = ", ".join(f"{phase.no} {phase.kind} {phase.state.lower()}" for phase in run.phases)
    dataset = run.spec.dataset
    split = f", split {dataset.split}" if dataset.split is not None else ""
    revision = f", revision {dataset.revision}" if dataset.revision is not None else ""
    blocks: list[Block] = [
        Facts(
            title="",
            items=(
                ("run", run.id),
                ("spec digest", run.spec_digest),
                ("parent run", run.parent_run_id or "none"),
                ("licence of the weights", _licence(run)),
                *_recipe(run),
                ("sample manifest", run.manifest_id or "none"),
                ("data set", f"{dataset.name} {dataset.version}{split}{revision}"),
                *taking_items(dataset),
                ("samples", f"{run.samples if run.samples is not None else '–'}, {run.unreadable} unreadable"),
                ("phases", phases or "none"),
                ("created, started", f"{run.created_at or '–'}, {run.started_at or '–'}"),
                ("metric environments", environments or "none"),
                ("VLMHyperBench", run.platform_version or "–"),
            ),
        )
    ]
    weights = _weights(run)
    if weights:
        columns = (Column(title="file"), Column(title="SHA-256", kind="code"), Column(title="location", kind="code"))
        blocks.append(Table(name=f"{name}-weights", title="Weights", columns=columns, rows=weights))
    if run.generating:
        blocks.append(_claims(run, name))
        blocks += _engines(run.generating)
    blocks.append(_metrics(run, name))
    packages = _packages(run.generating)
    if packages:
        columns = (Column(title="package"), Column(title="version"), Column(title="used by"))
        blocks.append(
            Table(name=f"{name}-packages", title="Packages", columns=columns, rows=packages, is_collapsed=True)
        )
    return Section(
        name=name,
        title=title,
        lead="Weights, engine, machine and software that the run used, recorded during the run.",
        blocks=tuple(blocks),
        is_collapsed=True,
    )


def _asking(spec: RunSpec) -> tuple[tuple[str, str], ...]:
    """List how the model was asked; for an imported run, only what its file says."""
    if isinstance(spec.target, ImportTarget):
        answers = ("answers", f"imported, SHA-256 {spec.target.answers}")
        if spec.target.is_function:
            answers = ("answers", f"of a Python function, SHA-256 {spec.target.answers}")
            return (*_prompt(spec.prompt), answers)
        return (answers, ("decoding", plain(spec.target.decoding)))
    decoding = {k: v for k, v in spec.decoding.model_dump(mode="json").items() if v not in (None, [])}
    scenario = spec.scenario
    return (
        *_prompt(spec.prompt),
        ("decoding", plain(decoding)),
        ("response format", plain(spec.response_format)),
        ("scenario", f"{scenario.name} {scenario.version} ({scenario.kind}), {scenario.in_words}"),
        ("warm-up", plural(scenario.warmup_requests, "request")),
    )


def _prompt(prompt: AnyPrompt) -> tuple[tuple[str, str], ...]:
    named = ("prompt", f"{prompt.name} {prompt.version}")
    return (named, *_strategy(prompt), *_collection(prompt), *_few_shot(prompt))


def _strategy(prompt: AnyPrompt) -> tuple[tuple[str, str], ...]:
    """Name the plugin that renders the prompts, with its version and params; empty without a plugin."""
    if isinstance(prompt, PromptSpec):
        return ()
    package = f", {prompt.package.label}" if prompt.package else ""
    return (("prompt strategy", f"{prompt.class_path}{package}"), ("prompt parameters", plain(prompt.params)))


def _collection(prompt: AnyPrompt) -> tuple[tuple[str, str], ...]:
    """Name the file of the templates, with the hash that is its version; empty without a collection."""
    if not isinstance(prompt, PromptSpec) or prompt.collection is None:
        return ()
    return (("prompt collection", f"{prompt.collection.path}, SHA-256 {prompt.collection.sha256}"),)


def _few_shot(prompt: AnyPrompt) -> tuple[tuple[str, str], ...]:
    """Say which answered examples stood before every question; empty without any."""
    if prompt.few_shot is None:
        return ()
    dataset, sampling = prompt.few_shot.dataset, prompt.few_shot.dataset.sampling
    split = f", split {dataset.split}" if dataset.split is not None else ""
    drawn = f", seed {sampling.seed}" if sampling is not None else ""
    strata = f", by {', '.join(sampling.by)}" if sampling is not None and sampling.by else ""
    shown = f"{plural(prompt.few_shot.count, 'example')} of {dataset.name} {dataset.version}{split}{drawn}{strata}"
    return (("examples", shown),)


def _rendered(run: RunEvidence) -> list[Listing]:
    asked = run.facts.filter(run.facts["user_prompt"].is_not_null()).head(1)
    return [
        Listing(title=f"As sent for {row['key']}", text=str(row["user_prompt"])) for row in asked.iter_rows(named=True)
    ]


def _origins(run: RunEvidence) -> list[Table]:
    """List the values that are no defaults, with the line, overlay or flag that set each."""
    if run.origins is None:
        return []
    values = ((name_of(path), value) for path, value in values_of(public_spec(run.spec)))
    named = ((name, plain(value), run.origins.get(name, "–")) for name, value in values)
    rows = [row for row in named if row[-1] != "default"]
    columns = (Column(title="value", kind="code"), Column(title="is"), Column(title="written in", kind="code"))
    note = "Values that are not listed are defaults; manifest.json lists all of them."
    title = "Where the configuration was written"
    return [Table(name="origins", title=title, columns=columns, rows=tuple(rows), note=note, is_collapsed=True)]


def _licence(run: RunSummary) -> str:
    target = run.spec.target
    return target.license or "unknown" if isinstance(target, ModelTarget) else "–"


def _recipe(run: RunSummary) -> tuple[tuple[str, str], ...]:
    """Say how the weights were made, of what and by which tools; empty where nobody made them."""
    recipe = run.spec.target.recipe if isinstance(run.spec.target, ModelTarget) else None
    if recipe is None:
        return ()
    steps = [f"converted to {recipe.convert}"] if recipe.convert is not None else []
    steps += [f"quantised to {recipe.quantize}"] if recipe.quantize is not None else []
    tools = [line for tool in (recipe.converter, recipe.quantizer) if tool is not None for line in tool.requirements]
    made = f"{recipe.source}, {', '.join(steps)} by {', '.join(tools)}"
    inputs = ", ".join(f"{file.role} {file.sha256}" for file in recipe.sources)
    return (("weights made of", made), ("inputs of the recipe", inputs))


def _weights(run: RunSummary) -> tuple[tuple[str, str, str], ...]:
    target = run.spec.target
    if isinstance(target, ModelTarget):
        return tuple((file.role, file.sha256, file.location) for file in target.files)
    hashes = {
        (str(role), str(digest))
        for claim in run.generating
        for role, digest in _mapping(_mapping(claim.engine).get("weights_sha256")).items()
    }
    return tuple((role, digest, "reported by the engine") for role, digest in sorted(hashes))


def _claims(run: RunSummary, name: str) -> Table:
    rows = []
    for claim in run.generating:
        engine = _mapping(claim.engine)
        rows.append(
            (
                claim.id,
                claim.host,
                machine_in_words(claim.machine),
                _engine_in_words(engine),
                _environment(claim),
                _certificate(claim),
                claim.measured_at or "–",
                claim.started_at or "–",
            )
        )
    return Table(
        name=f"{name}-claims",
        title="Claims that measured",
        columns=(
            Column(title="claim", kind="code"),
            Column(title="host"),
            Column(title="machine"),
            Column(title="engine"),
            Column(title="environment"),
            Column(title="certificate"),
            Column(title="measured at"),
            Column(title="started"),
        ),
        rows=tuple(rows),
    )


def _engine_in_words(engine: Mapping[str, JsonValue]) -> str:
    """Name an engine with its version, and the image of the container or the rented machine on which it ran."""
    words = f"{plain(engine.get('name'))} {plain(engine.get('version'))}"
    environment = _mapping(engine.get("environment"))
    if environment.get("kind") == "remote":
        kind, accelerators, cloud, region = (
            plain(environment.get(name)) for name in ("instance_type", "accelerators", "cloud", "region")
        )
        return f"{words}, on {kind} with {accelerators} of {cloud}/{region}"
    return (
        f"{words}, {plain(environment['kind'])} {plain(environment.get('image'))}" if "kind" in environment else words
    )


def _environment(claim: ClaimEvidence) -> str:
    """Name the environment of the engine: kind, key and Python."""
    known = _mapping(claim.environment or {})
    if "kind" not in known:
        return "–"
    return f"{plain(known.get('kind'))} {plain(known.get('key'))}, Python {plain(known.get('python_version'))}"


def _certificate(claim: ClaimEvidence) -> str:
    """State when exactly this environment was certified on this machine."""
    known = _mapping((claim.environment or {}).get("certificate"))
    return plain(known.get("created_at")) if known else "none"


def machine_in_words(machine: JsonObject) -> str:
    """Name processor, threads, memory and accelerators of a machine."""
    memory = machine.get("memory_total_bytes")
    parts = [
        plain(machine.get("cpu_model")),
        f"{plain(machine.get('cpu_threads'))} threads",
        size(memory if isinstance(memory, int) else None),
    ]
    devices = machine.get("devices")
    if isinstance(devices, Sequence) and not isinstance(devices, str):
        parts += [plain(_mapping(device).get("name")) for device in devices if _mapping(device).get("kind") == "gpu"]
    parts += [ONLY_DECLARED] if is_declared(machine) else []
    driver, distribution = machine.get("driver"), machine.get("distribution")
    parts += [f"driver {plain(driver)} (CUDA {plain(machine.get('cuda'))})"] if driver else []
    parts += [f"{plain(distribution)}, kernel {plain(machine.get('kernel'))}"] if distribution else []
    return ", ".join(parts)


def _engines(claims: Sequence[ClaimEvidence]) -> list[Listing]:
    lines = []
    for claim in claims:
        argv = _mapping(claim.engine).get("argv")
        if isinstance(argv, Sequence) and not isinstance(argv, str) and argv:
            lines.append(shlex.join(str(word) for word in argv))
    return [Listing(title="Engine's command line", text=line) for line in dict.fromkeys(lines)]


def _metrics(run: RunSummary, name: str) -> Table:
    return Table(
        name=f"{name}-metrics",
        title="Metrics",
        columns=(
            Column(title="metric"),
            Column(title="evaluation", kind="code"),
            Column(title="normaliser"),
            Column(title="definition"),
            Column(title="source"),
        ),
        rows=tuple(
            (
                f"{metric.name}@{metric.profile}:{metric.version}",
                metric.evaluation_id,
                metric.description.normaliser,
                metric.description.formula,
                metric.description.source,
            )
            for metric in run.described
        ),
        note="Equal evaluation ids mean equal weights, engine, prompt, samples, decoding, extractor and metric.",
    )


def _packages(claims: Sequence[ClaimEvidence]) -> tuple[tuple[str, str, str], ...]:
    versions = {
        (str(package), str(version), where)
        for claim in claims
        for where, packages in (
            ("engine", _mapping(claim.engine).get("packages")),
            ("adapter", _mapping(claim.engine).get("adapter_packages")),
            ("source", _mapping(claim.engine).get("sources")),
            ("worker", claim.packages),
        )
        for package, version in _mapping(packages).items()
    }
    return tuple(sorted(versions))


def _mapping(value: JsonValue | JsonObject) -> Mapping[str, JsonValue]:
    return value if isinstance(value, Mapping) else {}
