"""`vlmhyperbench load` with further fields of requests, such as options of an engine."""

from __future__ import annotations

import json

import pytest

from tests.shared.cli.measuring import measured
from vlmhyperbench.cli.load.parsing import parse_extra_body
from vlmhyperbench.load.bodies import OWN_FIELDS, RequestContent, make_bodies, make_turns
from vlmhyperbench_sdk.errors import InvalidInput
from vlmhyperbench_simulated.process import SimulatedProcess
from vlmhyperbench_simulated.simulation import Simulation


def test_every_request_contains_the_further_fields(capsys: pytest.CaptureFixture[str]) -> None:
    with SimulatedProcess(Simulation(tokens=4, usage="always")) as server:
        given = {"extra_body": '{"top_k": 1, "metadata": {"who": "ä"}}', "ignore_eos": True}
        data = measured(capsys, server.url, requests=3, concurrency=1, output_tokens=9, **given)
    assert data["extra_body"] == {"top_k": 1, "metadata": {"who": "ä"}, "ignore_eos": True}
    assert data["tokens"]["completion"] == 3 * 9
    content = RequestContent(model="m", prompt="?", extra_body=data["extra_body"])
    turn = next(make_turns(content, conversations=1, turns=1, seed=0))
    for body in (next(make_bodies(content, 1, [], seed=0)), turn.body):
        assert data["extra_body"].items() <= json.loads(body).items()


def test_the_field_that_limits_an_answer_can_have_its_newer_name(capsys: pytest.CaptureFixture[str]) -> None:
    content = RequestContent(model="m", prompt="?", output_tokens=9, max_tokens_field="max_completion_tokens")
    turn = next(make_turns(content, conversations=1, turns=1, seed=0))
    for body in map(json.loads, (next(make_bodies(content, 1, [], seed=0)), turn.body)):
        assert (body["max_completion_tokens"], "max_tokens" in body) == (9, False)
    with SimulatedProcess(Simulation(tokens=4, usage="always")) as server:
        given = {"max_tokens_field": "max_completion_tokens", "ignore_eos": True, "output_tokens": 9}
        data = measured(capsys, server.url, requests=2, concurrency=1, **given)
    assert data["tokens"]["completion"] == 2 * 9


@pytest.mark.parametrize("name", OWN_FIELDS)
def test_a_field_that_load_sets_itself_is_refused(name: str) -> None:
    with pytest.raises(InvalidInput, match=rf"field {name} "):
        parse_extra_body(json.dumps({name: 1}), ignore_eos=False)


@pytest.mark.parametrize("text", ["", "[1]", '{"a": 1, "a": 2}', '{"a": NaN}', '{"ignore_eos": false}'])
def test_further_fields_that_are_not_an_object_or_contradict_a_flag_are_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="--extra-body"):
        parse_extra_body(text, ignore_eos=True)
