"""Conversations: what is asked together, and where the answers that nobody knows yet will stand."""

import json

import numpy as np
import pytest

from vlmhyperbench.domain.specs import Decoding
from vlmhyperbench.errors import InvalidInput
from vlmhyperbench_inference_worker.conversations import converse, cut_marks, marked
from vlmhyperbench_inference_worker.requests import ImageRef, PlannedRequest, chat_request, request_digest
from vlmhyperbench_sdk.types import Prompt

PAGES = {name: (ImageRef(sha256=name * 64, media_type="image/png"),) for name in "ab"}


def asked(ordinal, question, page="a", *, system=None, repeat=0):
    prompt, images = Prompt(user=question, system=system), PAGES.get(page, ())
    request = chat_request(
        model="m", prompt=prompt, images=images, decoding=Decoding(), repeat=repeat, response_format=None
    )
    return PlannedRequest(
        phase=1,
        ordinal=ordinal,
        sample=ordinal,
        repeat=repeat,
        prompt=prompt,
        images=images,
        request=request,
        request_sha256=request_digest(request),
    )


def test_questions_about_the_same_page_are_turns_of_a_conversation():
    requests = [asked(0, "q0"), asked(1, "q1", "b"), asked(2, "q2"), asked(3, "q3"), asked(4, "q4", system="s")]
    talks = converse(requests, turns=2)
    assert [(request.ordinal, request.conversation, request.turn) for request in talks] == [
        (0, 0, 0),
        (2, 0, 1),
        (3, 1, 0),
        (1, 2, 0),
        (4, 3, 0),
    ]


def test_repeats_are_separate_conversations():
    talks = converse([asked(0, "q"), asked(1, "r"), asked(2, "q", repeat=1)], turns=3)
    assert [(request.conversation, request.turn) for request in talks] == [(0, 0), (0, 1), (1, 0)]


def test_a_later_turn_has_all_earlier_messages_and_the_page_once():
    first, second, third = converse(
        [asked(0, "q0", system="s"), asked(1, "q1", system="s"), asked(2, "q2", system="s")], turns=9
    )
    assert first.request == asked(0, "q0", system="s").request
    assert third.request["messages"] == [
        *first.request["messages"],
        {"role": "assistant", "content": ""},
        {"role": "user", "content": "q1"},
        {"role": "assistant", "content": ""},
        {"role": "user", "content": "q2"},
    ]
    assert second.request["messages"] == third.request["messages"][:4]
    assert len({request.request_sha256 for request in (first, second, third)}) == 3


@pytest.mark.parametrize("ascii_only", [True, False])
def test_answers_are_inserted_at_the_empty_strings_of_an_engine_s_body(tmp_path, ascii_only):
    talks = converse([asked(0, 'é "" '), asked(1, '"q"'), asked(2, "")], turns=3)
    bodies = [json.dumps(json.loads(marked(request)), ensure_ascii=ascii_only).encode() for request in talks]
    path = tmp_path / "bodies.bin"
    path.write_bytes(b"".join(bodies))
    offsets = np.array(
        [(sum(map(len, bodies[:place])), len(body)) for place, body in enumerate(bodies)],
        dtype=[("offset", "<i8"), ("bytes", "<i8")],
    )
    places = cut_marks(path, offsets, talks)
    assert [place[:3] for place in places] == [(1, 1, 0), (1, 2, 0), (1, 2, 1)]
    data = path.read_bytes()
    cut = [data[row["offset"] :][: row["bytes"]] for row in offsets]
    assert [json.loads(body) for body in cut] == [request.request for request in talks]
    assert sum(map(len, cut)) == len(data)
    # Answers, put in at their places from the last on, stand where the assistant speaks.
    filled = cut[2]
    for _, _, turn, at in reversed(places[1:]):
        filled = filled[:at] + f"answer {turn}".encode() + filled[at:]
    assert [message["content"] for message in json.loads(filled)["messages"][1::2]] == ["answer 0", "answer 1"]


def test_a_question_that_holds_a_mark_is_refused():
    talks = converse([asked(0, "q0"), asked(7, "what is @@the answer to turn 0@@?")], turns=2)
    with pytest.raises(InvalidInput, match="Sample 7"):
        marked(talks[1])
    [single] = converse([talks[1]], turns=2)
    assert json.loads(marked(single)) == single.request


def test_a_body_that_leaves_an_answer_out_is_refused(tmp_path, wording):
    talks = converse([asked(0, "q0"), asked(1, "q1")], turns=2)
    path = tmp_path / "bodies.bin"
    path.write_bytes(b"{}{}")
    offsets = np.array([(0, 2), (2, 2)], dtype=[("offset", "<i8"), ("bytes", "<i8")])
    with pytest.raises(InvalidInput) as refused:
        cut_marks(path, offsets, talks)
    wording(refused.value)
    assert path.read_bytes() == b"{}{}"
