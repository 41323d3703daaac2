"""The messages of a request as each style writes them, and the languages that a template is told."""

from __future__ import annotations

import pytest

from vlmhyperbench.domain.request_styles import (
    AnsweredTurn,
    Languages,
    RequestStyle,
    is_language_code,
    messages_of,
    template_values,
)
from vlmhyperbench_sdk.types import JsonObject, Prompt

PROMPT = Prompt(user="Which?", system="Be exact.")
IMAGE: JsonObject = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
SYSTEM: JsonObject = {"role": "system", "content": "Be exact."}
WRITTEN: list[tuple[RequestStyle, list[JsonObject], str]] = [
    ("openai_chat", [SYSTEM], "Which?"),
    ("instruct", [], "Be exact.\n\nWhich?"),
    ("translategemma", [], "Which?"),
]


@pytest.mark.parametrize(("style", "before", "user"), WRITTEN)
def test_only_the_usual_style_has_a_system_message_and_only_instruct_says_it_to_the_user(
    style: RequestStyle, before: list[JsonObject], user: str
) -> None:
    assert messages_of(PROMPT, (), style) == [*before, {"role": "user", "content": user}]
    with_image = [IMAGE, {"type": "text", "text": user}]
    assert messages_of(PROMPT, (IMAGE,), style) == [*before, {"role": "user", "content": with_image}]


@pytest.mark.parametrize("style", ["openai_chat", "instruct", "translategemma"])
@pytest.mark.parametrize("system", [None, ""])
def test_without_a_system_prompt_all_styles_are_the_same(style: RequestStyle, system: str | None) -> None:
    assert messages_of(Prompt(user="Which?", system=system), (), style) == [{"role": "user", "content": "Which?"}]


def test_only_a_template_that_translates_is_told_the_languages() -> None:
    languages = Languages(source="cs", target="de-AT")
    assert template_values(languages, "translategemma") == {
        "model_params": {"chat_template_kwargs": {"source_lang_code": "cs", "target_lang_code": "de-AT"}}
    }
    assert template_values(None, "translategemma") == {}
    assert template_values(languages, "openai_chat") == template_values(languages, "instruct") == {}


@pytest.mark.parametrize(
    ("text", "is_code"),
    [
        *((code, True) for code in ("de", "de-AT", "zh_Hant", "fil")),
        *((other, False) for other in ("", "d", "German", "DE", "de-", "de-Latin", "de-AT-x", "de\n", " de")),
    ],
)
def test_the_code_of_a_language_is_told_from_its_name(text: str, is_code: bool) -> None:
    assert is_language_code(text) is is_code


def test_answered_turns_stand_between_the_system_prompt_and_the_question() -> None:
    turns = [
        AnsweredTurn(user="Which was it?", images=(IMAGE,), answer="This."),
        AnsweredTurn(user="And?", images=(), answer="That."),
    ]
    images = [IMAGE, {"type": "text", "text": "Which was it?"}]
    answered: list[JsonObject] = [
        {"role": "user", "content": images},
        {"role": "assistant", "content": "This."},
        {"role": "user", "content": "And?"},
        {"role": "assistant", "content": "That."},
        {"role": "user", "content": "Which?"},
    ]
    assert messages_of(PROMPT, (), "openai_chat", turns) == [SYSTEM, *answered]
    images[1] = {"type": "text", "text": "Be exact.\n\nWhich was it?"}
    assert messages_of(PROMPT, (), "instruct", turns) == answered
