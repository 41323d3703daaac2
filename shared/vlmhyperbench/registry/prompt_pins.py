"""Pin the prompt of a run: its templates, its collection or its plugin, and where its examples are drawn."""

from __future__ import annotations

from vlmhyperbench.domain.pipelines import questioned
from vlmhyperbench.domain.request_styles import TRANSLATES
from vlmhyperbench.domain.scenarios import ScenarioSpec
from vlmhyperbench.domain.selection import SamplingSpec
from vlmhyperbench.domain.specs import (
    AnyPrompt,
    DatasetSpec,
    FewShotSpec,
    ModelTarget,
    PipelineTarget,
    PromptCollection,
    PromptSpec,
    PromptStrategySpec,
    PromptText,
    Target,
)
from vlmhyperbench.errors import InvalidInput, NotFound
from vlmhyperbench.registry.catalogue import Catalogue
from vlmhyperbench.registry.choices import DatasetChoice
from vlmhyperbench.registry.errors import Path
from vlmhyperbench.registry.packages import pin_own_environment
from vlmhyperbench.registry.pins import pin_dataset
from vlmhyperbench.registry.prompt_collections import Collection, read_collection
from vlmhyperbench.registry.prompts import FewShotChoice
from vlmhyperbench.registry.references import References
from vlmhyperbench.registry.schemas import PromptEntry


def pin_prompt(
    references: References, name: str, path: Path, *, asked: DatasetSpec | None = None, no_examples: str = ""
) -> AnyPrompt | None:
    """Pin a prompt, or report its problems.

    Args:
        references: The catalogue, and where problems are reported.
        name: Name of the prompt.
        path: Where it is named.
        asked: The dataset of the run, from another split of which examples are drawn.
        no_examples: Why this prompt cannot have examples; empty if it can.
    """
    entry = references.find(references.catalogue.prompts, "prompts", name, path)
    if entry is None:
        return None
    if entry.few_shot is not None and no_examples:
        cure = "Choose a prompt without few_shot."
        references.say(path, f"the prompt {name!r} has examples, and {no_examples}.", cure)
        return None
    few_shot = None
    if entry.few_shot is not None:
        few_shot = pin_few_shot(references, name, entry.few_shot, asked, path) if asked is not None else None
        if few_shot is None:
            return None
    prompt = _templates(references, name, entry, path) if entry.class_path is None else None
    if entry.class_path is not None:
        apart = pin_own_environment(references, "prompts", entry.class_path, entry.package, path)
        return PromptStrategySpec(
            name=name,
            version=entry.version,
            class_path=entry.class_path,
            package=None if apart is not None else references.plugins.pin("prompts", entry.class_path),
            environment=apart,
            params=entry.params,
            few_shot=few_shot,
        )
    return prompt if prompt is None or few_shot is None else prompt.model_copy(update={"few_shot": few_shot})


def _templates(references: References, name: str, entry: PromptEntry, path: Path) -> PromptSpec | None:
    try:
        return templates_of(references.catalogue, name, entry)
    except (InvalidInput, NotFound) as error:
        references.say(path, error.message, error.cure)
        return None


def templates_of(catalogue: Catalogue, name: str, entry: PromptEntry) -> PromptSpec:
    """Return the templates of a prompt entry, with those of its collection.

    Raises:
        NotFound, InvalidInput: its collection cannot be read, or states a default that the entry states, too.
    """
    values = entry.model_dump(include=set(PromptSpec.model_fields) - {"name", "collection", "few_shot"})
    if entry.collection is not None:
        if ("prompts", name) in catalogue.stored:
            message = f"The prompt {name!r} was made through the API, which has no folder with {entry.collection!r}."
            raise InvalidInput(message, cure="Write the templates into type_mapping.")
        collection = read_collection(catalogue.folder_of("prompts", name) / entry.collection)
        default = _default(entry, collection)
        values |= default.model_dump(exclude_none=True) | {
            "type_mapping": dict(collection.texts),
            "collection": PromptCollection(
                path=entry.collection,
                sha256=collection.sha256,
                has_default=default.user_prompt is not None or "user_prompt" in entry.model_fields_set,
            ),
        }
    return PromptSpec.model_validate({"name": name, **values})


def _default(entry: PromptEntry, collection: Collection) -> PromptText:
    if collection.default is None:
        return PromptText()
    written = [field for field in collection.default.model_dump(exclude_none=True) if field in entry.model_fields_set]
    if written:
        message = f"The collection {entry.collection} has a prompt for `default`, and the entry a {written[0]}."
        raise InvalidInput(message, cure="Write the default in one of them; fixed_prompt stands above both.")
    return collection.default


def pin_few_shot(
    references: References, name: str, choice: FewShotChoice, asked: DatasetSpec, path: Path
) -> FewShotSpec | None:
    """Pin where the examples of a prompt are drawn; they have the filters and the preprocessing of what is asked."""
    drawn: DatasetSpec | None = asked
    if choice.dataset is not None:
        chosen = DatasetChoice(name=choice.dataset, split=choice.split)
        drawn = pin_dataset(references, chosen, path)
    if drawn is None:
        return None
    split = choice.split if choice.split is not None else drawn.split
    if choice.dataset is None and split == asked.split:
        message = f"the examples of the prompt {name!r} are drawn from the split {split!r}, which is asked."
        references.say(path, message, "Write the name of another split in few_shot, or another dataset.")
        return None
    sampling = SamplingSpec(size=choice.count, seed=choice.seed, by=choice.stratify, allocation=choice.allocation)
    changes = {
        "split": split,
        "limit": None,
        "required_fields": (),
        "where": (*drawn.where, *choice.where),
        "sampling": sampling,
    }
    return FewShotSpec(dataset=drawn.model_copy(update=changes), answer_field=choice.answer_field)


def check_examples(
    references: References, prompt: AnyPrompt | None, target: Target | None, scenario: ScenarioSpec | None, path: Path
) -> None:
    """Report a target or a scenario of which requests cannot have examples before the question."""
    if prompt is None or prompt.few_shot is None:
        return
    why = ""
    targets = questioned(target) if isinstance(target, PipelineTarget) else [target]
    translating = [each.model for each in targets if isinstance(each, ModelTarget) and each.request_style == TRANSLATES]
    if translating:
        why = f"the model {translating[0]!r} translates one text, and takes no earlier turns"
    elif scenario is not None and scenario.kind == "interactive":
        why = f"the scenario {scenario.name!r} has earlier turns of its own"
    if why:
        message = f"the prompt {prompt.name!r} has examples, and {why}."
        references.say(path, message, "Choose a prompt without few_shot.")
