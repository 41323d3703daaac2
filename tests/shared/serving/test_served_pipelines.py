"""A served pipeline over real HTTP: what its models are asked, how its answer is told, and what ends it."""

from __future__ import annotations

import http.client
import json
from pathlib import Path
from threading import Barrier
from urllib.parse import urlsplit

import pytest

from tests.shared.serving.members import KEY, Member, model, pieces, served, target
from tests.support.processes import PATIENCE_S

IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
SCHEMA = {"type": "object", "properties": {"total": {"type": "integer"}}, "required": ["total"]}
FORMAT = {"type": "json_schema", "json_schema": {"name": "answer", "schema": SCHEMA}}


def vote(*names: str, **aggregation: object) -> dict[str, object]:
    members = [model(name) for name in names]
    return {"id": "read", "members": members, "aggregation": {"class_path": "vote", **aggregation}}


def test_a_vote_is_one_answer_with_the_parts_of_its_members(tmp_path: Path) -> None:
    members = {"a": Member("Blue", "."), "b": Member("red"), "c": Member("blue")}
    with served(target(vote("a", "b", "c")), tmp_path, members) as pipeline:
        answer = pipeline.ask(max_tokens=7, temperature=0.5, seed=3, stop="END")
    assert (answer["model"], answer["choices"][0]["message"]["content"]) == ("p", "Blue.")
    usage = answer["usage"]
    assert (usage["prompt_tokens"], usage["completion_tokens"], usage["total_tokens"]) == (30, 4, 34)
    assert [(part["stage"], part["name"], part["completion_tokens"]) for part in usage["members"]] == [
        ("read", "a", 2),
        ("read", "b", 1),
        ("read", "c", 1),
    ]
    [stage] = answer["vlmhyperbench"]["stages"]
    assert (stage["support"], stage["confidence"], stage["dissent"]) == (2, pytest.approx(2 / 3), ["b"])
    assert members["a"].keys == [f"Bearer {KEY}"]
    assert members["a"].asked == [
        {
            "model": "a",
            "messages": [{"role": "user", "content": "Which?"}],
            "stream": True,
            "stream_options": {"include_usage": True},
            "max_tokens": 7,
            "temperature": 0.5,
            "seed": 3,
            "stop": ["END"],
        }
    ]


def test_a_combined_answer_is_streamed_in_one_piece_with_usage_only_where_it_is_wanted(tmp_path: Path) -> None:
    members = {"a": Member("Blue", "."), "b": Member("blue")}
    with served(target(vote("a", "b")), tmp_path, members) as pipeline:
        events, wanted = pipeline.stream(), pipeline.stream(stream_options={"include_usage": True})
    assert pieces(events) == ["Blue."]
    assert not any("usage" in event for event in events)
    assert [event["usage"]["total_tokens"] for event in wanted if "usage" in event] == [23]
    assert [event["vlmhyperbench"]["pipeline"] for event in events if "vlmhyperbench" in event] == ["p"]


def test_the_answer_of_a_last_model_is_streamed_as_it_is_written(tmp_path: Path) -> None:
    stages = (
        {"id": "read", "members": [model("a")], "output_mode": "question_and_answer"},
        {"id": "write", "inputs": ["read"], "instructions": "Rewrite.", "members": [model("b", sees_images=False)]},
    )
    members = {"a": Member("<think>so</think>blue"), "b": Member("It ", "is ", "blue")}
    with served(target(*stages), tmp_path, members, {"b": {"max_tokens": 5}}) as pipeline:
        events = pipeline.stream(messages=[{"role": "user", "content": [IMAGE, {"type": "text", "text": "Which?"}]}])
    assert pieces(events) == ["It ", "is ", "blue"]
    assert members["a"].asked[0]["messages"][0]["content"] == [IMAGE, {"type": "text", "text": "Which?"}]
    [second] = members["b"].asked
    assert second["messages"] == [{"role": "user", "content": "Rewrite.\n\nQuestion:\nWhich?\n\nAnswer:\nblue"}]
    assert (members["a"].asked[0]["max_tokens"], second["max_tokens"]) == (256, 5)


def merged(**stage: object) -> dict[str, object]:
    merger = {"class_path": "synthesis", "merger": model("m"), "is_repaired": True}
    return {"id": "read", "members": [model("a"), model("b")], "aggregation": merger, **stage}


def test_a_merged_answer_is_streamed_up_to_where_reasoning_may_begin(tmp_path: Path) -> None:
    members = {"a": Member("blue"), "b": Member("red"), "m": Member(" It is", " blue ", "<think>or", "</think>not")}
    with served(target(merged()), tmp_path, members) as pipeline:
        events = pipeline.stream()
    assert pieces(events) == ["It is", " blue", " not"]
    assert "Response A" in members["m"].asked[0]["messages"][0]["content"]
    assert len(members["m"].asked) == 1


def thinking(name: str, **changes: object) -> dict[str, object]:
    own = model(name)
    return {**own, "target": {**own["target"], **changes}}


MARKS = [{"begin": "[THINK]", "end": "[/THINK]"}]
MERGE = {"class_path": "template", "params": {"template": "{{ members[0].text }}"}}


@pytest.mark.parametrize(
    "stage",
    [
        {"id": "read", "members": [thinking("m", strip_reasoning=True)]},
        {"id": "read", "members": [thinking("m", strip_reasoning=True, reasoning_marks=MARKS)]},
        {
            "id": "read",
            "members": [model("a"), model("b")],
            "aggregation": {**MERGE, "merger": thinking("m", strip_reasoning=True)},
        },
        merged(
            aggregation={"class_path": "synthesis", "merger": thinking("m", reasoning_marks=MARKS), "is_repaired": True}
        ),
    ],
)
def test_an_answer_without_its_model_s_reasoning_is_sent_when_it_is_whole(
    tmp_path: Path, stage: dict[str, object]
) -> None:
    begin, end = ("[THINK]", "[/THINK]") if "[THINK]" in json.dumps(stage) else ("<think>", "</think>")
    members = {"a": Member("blue"), "b": Member("red"), "m": Member(" ", begin, "or ", f"not{end} It", " is blue")}
    with served(target(stage), tmp_path, members) as pipeline:
        events, whole = pipeline.stream(), pipeline.ask()
    assert [event["error"] for event in events if "error" in event] == []
    assert pieces(events) == ["It is blue"]
    assert whole["choices"][0]["message"]["content"] == "It is blue"


@pytest.mark.parametrize(
    ("stage", "members", "reason"),
    [
        (vote("a", "b"), {"a": Member("x", ends="length"), "b": Member("x", ends="length")}, "stop"),
        ({"id": "read", "members": [model("a")]}, {"a": Member("x", ends="length")}, "length"),
        (merged(response_format=FORMAT), {"m": Member('{"total": 1}', ends="length")}, "length"),
        (merged(response_format=FORMAT), {"m": Member("no", ends="length")}, "stop"),
    ],
)
def test_an_answer_ends_as_the_model_did_whose_words_it_is(
    tmp_path: Path, stage: dict[str, object], members: dict[str, Member], reason: str
) -> None:
    voters = {name: Member('{"total": 1}') for name in "ab"}
    with served(target(stage), tmp_path, {**voters, **members}) as pipeline:
        answer, events = pipeline.ask(), pipeline.stream()
    assert answer["choices"][0]["finish_reason"] == reason
    assert [choice["finish_reason"] for event in events for choice in event.get("choices", ())][-1] == reason


def test_a_merged_answer_that_needs_no_repair_has_a_time(tmp_path: Path) -> None:
    with served(target(merged()), tmp_path, {"a": Member("x"), "b": Member("y"), "m": Member("z")}) as pipeline:
        assert pipeline.ask()["vlmhyperbench"]["critical_path_ns"] > 0


def test_a_merged_answer_under_a_schema_is_repaired_and_sent_when_it_is_whole(tmp_path: Path) -> None:
    members = {"a": Member('{"total": 1}'), "b": Member('{"total": 1}'), "m": Member("no", "thing")}
    with served(target(merged()), tmp_path, members) as pipeline:
        events = pipeline.stream(response_format=FORMAT)
    assert pieces(events) == ['{"total": 1}']
    assert len(members["m"].asked) == 2
    assert members["a"].asked[0]["response_format"] == FORMAT


def test_a_stage_that_wants_each_samples_schema_takes_that_of_the_request(tmp_path: Path) -> None:
    stage = {**vote("a", "b", params={"scope": "field"}), "response_format": {"type": "json_schema"}}
    members = {"a": Member('{"total": 1}'), "b": Member('{"total": 1}')}
    with served(target(stage), tmp_path, members) as pipeline:
        answer, without = pipeline.ask(response_format=FORMAT), pipeline.ask()
    assert json.loads(answer["choices"][0]["message"]["content"]) == {"total": 1}
    assert (without["status"], without["error"]["code"]) == (400, "no_schema")


def test_a_member_that_fails_is_skipped_unless_none_may(tmp_path: Path) -> None:
    members = {"a": Member("blue"), "b": Member(500), "c": Member("blue")}
    with served(target(vote("a", "b", "c")), tmp_path, members) as pipeline:
        answer = pipeline.ask()
    assert answer["choices"][0]["message"]["content"] == "blue"
    [told] = [each for each in answer["vlmhyperbench"]["stages"][0]["models"] if "error" in each]
    assert (told["name"], told["error"]) == ("b", "http_500: it will not")
    strict = vote("a", "b", "c", params={"on_member_error": "fail"})
    with served(target(strict), tmp_path, members) as pipeline:
        refused, events = pipeline.ask(), pipeline.stream()
    assert (refused["status"], refused["error"]["code"]) == (502, "pipeline_member_failed")
    assert [event["error"]["code"] for event in events] == ["pipeline_member_failed"]


def test_a_lost_model_that_is_needed_ends_the_request_at_once_and_an_optional_one_abstains(tmp_path: Path) -> None:
    members = {"a": Member("blue", hangs=True), "b": Member(500), "c": Member("blue")}
    members["b"].is_lost = "The engine ended while it served: SIGKILL.\nits output"
    with served(target(vote("a", "b", "c")), tmp_path, members) as pipeline:
        refused, events = pipeline.ask(), pipeline.stream()
    assert members["a"].was_left.wait(PATIENCE_S)
    assert (refused["status"], refused["error"]["code"]) == (503, "pipeline_model_lost")
    assert "read/b" in refused["error"]["message"]
    assert "SIGKILL" in refused["error"]["message"]
    assert "its output" not in refused["error"]["message"]
    assert [event["error"]["code"] for event in events] == ["pipeline_model_lost"]
    stage = {**vote("a"), "members": [model("c"), model("b", is_optional=True)]}
    with served(target(stage), tmp_path, members) as pipeline:
        answer = pipeline.ask()
    assert (answer["status"], answer["choices"][0]["message"]["content"]) == (200, "blue")
    told = answer["vlmhyperbench"]["stages"][0]
    assert (told["n_valid"], told["models"][1]["name"]) == (1, "b")
    assert told["models"][1]["error"].startswith("model_lost: The engine ended while it served")


def test_where_all_that_could_answer_is_lost_the_request_may_be_repeated(tmp_path: Path) -> None:
    members = {"a": Member(503), "b": Member(502)}
    stage = {**vote("a"), "members": [model("a", is_optional=True), model("b", is_optional=True)]}
    with served(target(stage), tmp_path, members) as pipeline:
        refused = pipeline.ask()
    assert (refused["status"], refused["error"]["code"].startswith("pipeline_")) == (503, True)


def test_stages_with_the_same_inputs_are_asked_at_once_and_a_pipeline_in_a_stage_like_a_model(tmp_path: Path) -> None:
    meeting = Barrier(2)
    members = {
        "reader": Member("page"),
        "left": Member("L", meets=meeting),
        "right": Member("R", meets=meeting),
        "within": Member("inner"),
        "beside": Member("outer"),
    }
    pipeline = target(
        {"id": "read", "members": [model("reader")]},
        {"id": "left", "inputs": ["read"], "members": [model("left")]},
        {"id": "right", "inputs": ["read"], "members": [model("right")]},
        {"id": "last/pair/say", "within": "last/pair", "inputs": ["left", "right"], "members": [model("within")]},
        {
            "id": "last",
            "inputs": ["left", "right"],
            "members": [model("beside")],
            "inner": [{"name": "pair", "stage": "last/pair/say", "position": 0}],
            "aggregation": {"class_path": "concat"},
        },
    )
    with served(pipeline, tmp_path, members) as at:
        answer = at.ask()
    assert (answer["status"], answer["choices"][0]["message"]["content"]) == (200, "inner\n\nouter")
    for name in ("within", "beside"):
        assert [each["messages"][-1]["content"] for each in members[name].asked] == ["L\n\nR"]
    assert sorted(part["name"] for part in answer["usage"]["members"]) == sorted(members)


def test_an_optional_model_that_was_not_loaded_is_not_asked(tmp_path: Path) -> None:
    with served(target(vote("a", "b")), tmp_path, {"a": Member("blue")}) as pipeline:
        answer = pipeline.ask()
    assert answer["choices"][0]["message"]["content"] == "blue"
    assert answer["vlmhyperbench"]["stages"][0]["models"][1]["is_dropped"] is True


def test_images_are_refused_where_a_model_without_projector_would_get_them(tmp_path: Path) -> None:
    def members(**changes: object) -> tuple[dict[str, object], ...]:
        blind = model("b", **changes)
        files = [{"role": "weights", "location": "/b.gguf", "sha256": "0" * 64}]
        return model("a"), {**blind, "target": {**blind["target"], "files": files}}

    stage = {"id": "read", "aggregation": {"class_path": "vote"}}
    messages = [{"role": "user", "content": [IMAGE, {"type": "text", "text": "Which?"}]}]
    answering = {"a": Member("blue"), "b": Member("blue")}
    with served(target({**stage, "members": members()}), tmp_path, answering) as pipeline:
        refused, text = pipeline.ask(messages=messages), pipeline.ask()
    assert (refused["status"], refused["error"]["code"]) == (400, "images_unsupported")
    assert "images: false" in refused["error"]["message"]
    assert text["choices"][0]["message"]["content"] == "blue"
    for changes in ({"sees_images": False}, {"is_optional": True}):
        with served(target({**stage, "members": members(**changes)}), tmp_path, answering) as pipeline:
            assert pipeline.ask(messages=messages)["status"] == 200


@pytest.mark.parametrize("is_streamed", [True, False])
def test_a_client_that_leaves_ends_what_the_models_are_asked(tmp_path: Path, is_streamed: bool) -> None:
    members = {"a": Member("blue", hangs=True), "b": Member("red", hangs=True)}
    with served(target(vote("a", "b")), tmp_path, members) as pipeline:
        url = urlsplit(pipeline.url)
        connection = http.client.HTTPConnection(url.hostname or "", url.port, timeout=PATIENCE_S)
        body = {"model": "p", "messages": [{"role": "user", "content": "?"}], "stream": is_streamed}
        connection.request("POST", "/v1/chat/completions", json.dumps(body))
        assert all(member.was_asked.wait(PATIENCE_S) for member in members.values())
        assert not any(member.was_left.is_set() for member in members.values())
        connection.close()
        assert all(member.was_left.wait(PATIENCE_S) for member in members.values())


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"messages": [{"role": "user", "content": "?"}, {"role": "assistant", "content": "!"}]}, "unsupported"),
        ({"messages": [{"role": role, "content": "?"} for role in ("user", "assistant", "user")]}, "unsupported"),
        ({"messages": [{"role": "system", "content": [IMAGE]}, {"role": "user", "content": "?"}]}, "invalid_input"),
        ({"response_format": {"type": "json_schema", "json_schema": {"schema": {"type": 3}}}}, "invalid_input"),
        ({"top_p": 1.5}, "invalid_input"),
    ],
)
def test_a_request_that_a_pipeline_cannot_answer_is_refused(tmp_path: Path, body: dict[str, object], code: str) -> None:
    members = {"a": Member("blue"), "b": Member("blue")}
    with served(target(vote("a", "b")), tmp_path, members) as pipeline:
        refused = pipeline.ask(**body)
    assert (refused["status"], refused["error"]["code"]) == (400, code)
    assert members["a"].asked == []


def test_a_last_stage_with_a_format_of_its_own_takes_no_other(tmp_path: Path) -> None:
    stage = {**vote("a", "b"), "response_format": {"type": "json_object"}}
    with served(target(stage), tmp_path, {"a": Member("{}"), "b": Member("{}")}) as pipeline:
        same, other = pipeline.ask(response_format={"type": "json_object"}), pipeline.ask(response_format=FORMAT)
    assert (same["status"], other["status"], other["error"]["code"]) == (200, 400, "unsupported")
