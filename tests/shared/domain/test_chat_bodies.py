"""The chat request of a run and of a served pipeline: what is asked, and nothing that nobody set."""

from __future__ import annotations

from vlmhyperbench.domain.chat_bodies import chat_body
from vlmhyperbench.domain.decoding import Decoding
from vlmhyperbench_sdk.types import JsonObject, Prompt

IMAGE: JsonObject = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}


def test_images_stand_before_the_text_and_the_system_prompt_before_both() -> None:
    prompt = Prompt(user="What is the total?", system="Read.")
    body = chat_body(model="m", prompt=prompt, images=[IMAGE], decoding=Decoding(), response_format=None)
    assert body["messages"] == [
        {"role": "system", "content": "Read."},
        {"role": "user", "content": [IMAGE, {"type": "text", "text": "What is the total?"}]},
    ]


def test_without_images_the_content_is_text_and_what_is_unset_is_left_out() -> None:
    body = chat_body(
        model="m", prompt=Prompt(user="?"), images=[], decoding=Decoding(temperature=None), response_format=None
    )
    assert body == {
        "model": "m",
        "messages": [{"role": "user", "content": "?"}],
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_tokens": 256,
    }


def test_each_repeat_has_a_seed_of_its_own() -> None:
    def seed(repeat: int) -> object:
        return chat_body(
            model="m",
            prompt=Prompt(user="?"),
            images=[],
            decoding=Decoding(seed=7),
            repeat=repeat,
            response_format={"type": "json_object"},
        )["seed"]

    assert [seed(0), seed(1), seed(2)] == [7, 8, 9]
