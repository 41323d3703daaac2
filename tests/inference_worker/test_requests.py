"""The chat request of a sample: what is asked, and the hash that identifies it."""

from vlmhyperbench.domain.specs import Decoding
from vlmhyperbench_inference_worker.requests import Example, ImageRef, chat_request, request_digest
from vlmhyperbench_sdk.endpoint import EndpointOptions
from vlmhyperbench_sdk.types import Prompt

IMAGE = ImageRef(sha256="a" * 64, media_type="image/png")


def request(**changes):
    given = {
        "model": "tiny",
        "prompt": Prompt(user="What is the total?"),
        "images": [IMAGE],
        "decoding": Decoding(max_tokens=32),
        "repeat": 0,
        "response_format": None,
    }
    return chat_request(**{**given, **changes})


def test_an_image_precedes_the_question_and_is_named_by_its_hash():
    parts = request()["messages"][0]["content"]
    assert [part["type"] for part in parts] == ["image_url", "text"]
    assert parts[0]["image_url"] == {"url": "sha256:" + "a" * 64, "media_type": "image/png"}


def test_an_endpoint_s_options_rename_omit_and_add_fields_and_change_the_hash():
    options = EndpointOptions(
        max_tokens_field="max_completion_tokens", omit=("temperature",), extra_body={"enable_thinking": False}
    )
    made = request(options=options)
    assert made["max_completion_tokens"] == 32
    assert made["enable_thinking"] is False
    assert not {"max_tokens", "temperature"} & set(made)
    assert request_digest(made) != request_digest(request())


def test_a_question_without_image_is_plain_text():
    assert request(images=[])["messages"] == [{"role": "user", "content": "What is the total?"}]


def test_a_system_prompt_is_a_message_of_its_own():
    messages = request(prompt=Prompt(user="Q", system="Be brief."))["messages"]
    assert messages[0] == {"role": "system", "content": "Be brief."}


def test_examples_are_answered_turns_between_the_system_prompt_and_the_question_and_change_the_hash():
    shown = ImageRef(sha256="b" * 64, media_type="image/png")
    example = Example(key="e", user="What is it?", images=(shown,), answer="A cat")
    made = request(prompt=Prompt(user="Q", system="Be brief."), examples=[example])
    assert [message["role"] for message in made["messages"]] == ["system", "user", "assistant", "user"]
    first, answer, question = made["messages"][1:]
    assert first["content"] == [shown.part, {"type": "text", "text": "What is it?"}]
    assert (answer["content"], question["content"][0]) == ("A cat", IMAGE.part)
    assert request_digest(made) != request_digest(request(prompt=Prompt(user="Q", system="Be brief.")))


def test_a_model_without_a_system_role_gets_its_text_before_the_first_example():
    example = Example(key="e", user="What is it?", images=(), answer="A cat")
    made = request(prompt=Prompt(user="Q", system="Be brief."), images=[], examples=[example], style="instruct")
    assert [message["content"] for message in made["messages"]] == ["Be brief.\n\nWhat is it?", "A cat", "Q"]


def test_options_that_decoding_does_not_set_are_not_sent():
    assert not {"top_p", "top_k", "min_p", "seed", "stop", "response_format"} & set(request())


def test_repeats_of_a_seeded_sample_have_different_seeds():
    decoding = Decoding(temperature=1.0, seed=7, n=3)
    assert [request(decoding=decoding, repeat=i)["seed"] for i in range(3)] == [7, 8, 9]


def test_every_part_of_a_request_changes_its_hash():
    variants = [
        request(),
        request(model="other"),
        request(prompt=Prompt(user="What is the date?")),
        request(prompt=Prompt(user="What is the total?", system="Be brief.")),
        request(images=[ImageRef(sha256="b" * 64, media_type="image/png")]),
        request(images=[]),
        request(decoding=Decoding(max_tokens=33)),
        request(decoding=Decoding(max_tokens=32, temperature=0.5)),
        request(response_format={"type": "json_object"}),
    ]
    assert len({request_digest(variant) for variant in variants}) == len(variants)
    assert request_digest(request()) == request_digest(request())


def test_the_order_of_a_schema_s_members_changes_the_hash():
    def hash_of(*names):
        schema = {"type": "object", "properties": {name: {} for name in names}}
        wanted = {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}
        return request_digest(request(response_format=wanted))

    assert hash_of("a", "b") == hash_of("a", "b") != hash_of("b", "a")
