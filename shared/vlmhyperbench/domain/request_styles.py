"""How the messages of a request are written for models that were trained on other ones than OpenAI's. Pure.

`openai_chat` sends a system message and a user message. `instruct` is for models whose template has no system role: its
text stands before the question, in one user message. `translategemma` is for TranslateGemma, whose template writes the
instruction itself: it gets the text alone, and the codes of both languages as values of its template.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Final, Literal, TypeAlias, cast

from pydantic import Field, JsonValue

from vlmhyperbench.domain.base import Spec
from vlmhyperbench_sdk.types import JsonObject, Prompt

RequestStyle: TypeAlias = Literal["openai_chat", "instruct", "translategemma"]
TRANSLATES: Final = "translategemma"
"""The style that needs languages, and takes no instruction."""
_CODE: Final = re.compile(r"[a-z]{2,3}([-_][A-Za-z]{2,4})?")

Text = Annotated[str, Field(max_length=200)]


class Languages(Spec):
    """From which language into which a stage translates."""

    source: Text
    target: Text


class ReasoningMarks(Spec):
    """What a model writes before and after its reasoning; without `begin`, that begins with the answer."""

    begin: Text = ""
    end: Annotated[str, Field(min_length=1, max_length=200)]


def is_language_code(text: str) -> bool:
    """Return whether a text is the code of a language, such as `de` or `de-AT`."""
    return _CODE.fullmatch(text) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class AnsweredTurn:
    """A question with its answer that stands before the question of a request."""

    user: str
    images: Sequence[JsonObject]
    """Parts of a message."""
    answer: str


def messages_of(
    prompt: Prompt, images: Sequence[JsonObject], style: RequestStyle, earlier: Sequence[AnsweredTurn] = ()
) -> list[JsonValue]:
    """Return the messages of a request; images stand before the text, and the system prompt before earlier turns."""
    before, system = "", prompt.system
    if style != "openai_chat":
        before = f"{system}\n\n" if system and style == "instruct" else ""
        system = None
    messages: list[JsonValue] = [{"role": "system", "content": system}] if system else []
    for turn in earlier:
        messages += [_user(before + turn.user, turn.images), {"role": "assistant", "content": turn.answer}]
        before = ""
    return [*messages, _user(before + prompt.user, images)]


def _user(text: str, images: Sequence[JsonObject]) -> JsonValue:
    parts = cast("list[JsonValue]", [*images, {"type": "text", "text": text}])
    return {"role": "user", "content": parts if images else text}


def template_values(languages: Languages | None, style: RequestStyle) -> dict[str, JsonValue]:
    """Return the engine's own fields of a request: what its template is told."""
    if style != TRANSLATES or languages is None:
        return {}
    codes: JsonValue = {"source_lang_code": languages.source, "target_lang_code": languages.target}
    return {"model_params": {"chat_template_kwargs": codes}}
