"""The fields of an entry of `prompts`: templates, a collection of them or a plugin, and examples before a question."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field, model_validator

from vlmhyperbench.domain.base import Refused
from vlmhyperbench.domain.specs import PromptText
from vlmhyperbench.registry.choices import Columns, Filters
from vlmhyperbench.registry.values import Params, PluginName, Slug, Strict

MAX_EXAMPLES: Final = 64
TEMPLATES: Final = ("system_prompt", "user_prompt", "fixed_system_prompt", "fixed_prompt", "type_mapping", "collection")


class FewShotChoice(Strict):
    """Examples that are asked and answered before every question: which samples they are, and how they are drawn."""

    count: Annotated[int, Field(ge=1, le=MAX_EXAMPLES)]
    split: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    """Another split than the one that is asked; of `dataset` where that is written."""
    dataset: Slug | None = None
    """Another dataset; by default that of the run."""
    seed: int = 0
    stratify: Columns = ()
    """Metadata whose values are strata, such as `doc_class`."""
    allocation: Literal["equal", "proportional"] = "equal"
    """How the examples are shared out among the strata."""
    where: Filters = ()
    """Filters on the metadata of examples."""
    answer_field: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    """Metadata that has the answer of an example; by default its first reference is the answer."""

    @model_validator(mode="after")
    def _draws_elsewhere(self) -> FewShotChoice:
        if self.split is None and self.dataset is None:
            message = "examples are drawn from the samples that are asked"
            raise Refused(message, cure="Write split, the name of another split, or dataset.")
        return self


class PromptFields(Strict):
    """What an entry of `prompts` has beside its name, version and description."""

    system_prompt: str | None = None
    user_prompt: str = "{{ question }}"
    fixed_system_prompt: str | None = None
    fixed_prompt: str | None = None
    type_mapping: dict[str, PromptText] = Field(default_factory=dict)
    collection: Annotated[str, Field(min_length=1, max_length=1000)] | None = None
    """File of templates by type: .csv (`prompt;doc_class_question_type`), .json, .yaml, or .txt with one for all."""
    class_path: PluginName | None = None
    """Registered name or dotted path of a prompt strategy."""
    params: Params = Field(default_factory=dict)
    """Params of the prompt strategy."""
    package: Slug | None = None
    few_shot: FewShotChoice | None = None

    @model_validator(mode="after")
    def _is_templates_or_a_strategy(self) -> PromptFields:
        if self.class_path is None and (self.params or self.package is not None):
            raise Refused(
                "params and package have no effect without class_path", cure="Add class_path, or leave them out."
            )
        if self.class_path is not None and (written := sorted({*TEMPLATES} & self.model_fields_set)):
            message = f"class_path makes the whole prompt, so {', '.join(written)} would have no effect"
            raise Refused(message, cure="Leave them out, or leave out class_path.")
        if self.collection is not None and self.type_mapping:
            message = "collection and type_mapping both have templates by type"
            raise Refused(message, cure="Write the templates in one of them.")
        return self
