"""Prompts: which template applies, what it may use, and how others are refused."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.wording import Wording
from vlmhyperbench.domain.prompts import MAX_TEMPLATE_CHARS, check_templates, is_linear, render
from vlmhyperbench.domain.specs import PromptSpec, PromptText
from vlmhyperbench_sdk.checks import MAX_PROMPT_CHARS
from vlmhyperbench_sdk.errors import InvalidInput
from vlmhyperbench_sdk.types import JsonObject, Prompt


def _prompt(user: str = "{{ question }}", **fields: object) -> PromptSpec:
    return PromptSpec.model_validate({"name": "p", "version": "1.0.0", "user_prompt": user, **fields})


def _user(user: str, question: str = "Why?", metadata: JsonObject | None = None) -> str:
    return render(_prompt(user), question=question, metadata=metadata or {}).user


def test_the_default_prompt_is_the_question_alone() -> None:
    assert render(_prompt(), question="What is it?", metadata={}) == Prompt(user="What is it?")


def test_fixed_goes_before_the_document_type_and_that_before_the_default_field_by_field() -> None:
    spec = _prompt(
        "default",
        system_prompt="system default",
        fixed_system_prompt=None,
        type_mapping={"invoice": PromptText(user_prompt="by type"), "ticket": PromptText(system_prompt="")},
    )
    fixed = spec.model_copy(update={"fixed_prompt": "fixed", "fixed_system_prompt": "fixed system"})
    invoice: JsonObject = {"doc_class": "invoice"}
    assert render(spec, question="", metadata={}) == Prompt(user="default", system="system default")
    assert render(spec, question="", metadata=invoice) == Prompt(user="by type", system="system default")
    assert render(spec, question="", metadata={"doc_class": "ticket"}) == Prompt(user="default", system=None)
    assert render(fixed, question="", metadata=invoice) == Prompt(user="fixed", system="fixed system")


def test_the_document_type_is_read_before_the_document_class() -> None:
    spec = _prompt("default", type_mapping={"a": {"user_prompt": "A"}, "b": {"user_prompt": "B"}})
    assert render(spec, question="", metadata={"doc_type": "a", "doc_class": "b"}).user == "A"
    assert render(spec, question="", metadata={"doc_type": "?", "doc_class": "b"}).user == "B"
    assert render(spec, question="", metadata={"doc_type": 1}).user == "default"


def test_a_class_with_a_question_type_is_read_before_the_class_alone() -> None:
    spec = _prompt("default", type_mapping={"id name": {"user_prompt": "name"}, "id": {"user_prompt": "any"}})
    assert render(spec, question="", metadata={"doc_class": "id", "question_type": "name"}).user == "name"
    assert render(spec, question="", metadata={"doc_class": "id", "question_type": "date"}).user == "any"


def test_a_collection_without_a_default_refuses_a_sample_of_another_type_and_names_the_nearest() -> None:
    collection = {"path": "prompts.csv", "sha256": "0" * 64, "has_default": False}
    spec = _prompt(collection=collection, type_mapping={"invoice total": {"user_prompt": "Total?"}})
    asked: JsonObject = {"doc_class": "invoice", "question_type": "total"}
    assert render(spec, question="", metadata=asked).user == "Total?"
    with pytest.raises(InvalidInput) as caught:
        render(spec, question="", metadata={"doc_class": "invoice", "question_type": "totals"})
    assert "prompts.csv" in caught.value.message
    assert "invoice total" in str(caught.value.cure)
    with pytest.raises(InvalidInput) as caught:
        render(spec, question="", metadata={})
    assert "doc_class" in caught.value.message
    complete = spec.model_copy(update={"collection": spec.collection.model_copy(update={"has_default": True})})
    assert render(complete, question="Why?", metadata={}).user == "Why?"


def test_templates_branch_loop_and_filter() -> None:
    metadata: JsonObject = {"f": "total", "items": ["a", "b"], "box": {"x": 1}}
    assert _user("{% if metadata.f == 'total' %}{{ metadata.f | upper }}{% endif %}", metadata=metadata) == "TOTAL"
    assert _user("{% for i in metadata.items %}{{ loop.index }}{{ i }} {% endfor %}", metadata=metadata) == "1a 2b "
    assert _user("{% for k, v in metadata.box | dictsort %}{{ k }}={{ v }}{% endfor %}", metadata=metadata) == "x=1"
    assert _user("{{ metadata['items'][0] }}{{ metadata['items'][-1:] | join }}", metadata=metadata) == "ab"
    assert (
        _user("{{ metadata.none | default('-') }}{{ metadata['items'][9] | default('+') }}", metadata=metadata) == "-+"
    )
    assert _user("{{ metadata.a.b['c'] | default('-') }}") == "-"
    assert _user("{{ metadata['a'].b | default('-') }}") == "-"
    assert _user("{{ 7[0] | default('-') }}{{ question[:2] }}") == "-Wh"
    assert _user("{{ metadata | tojson }}", metadata={"a": "<é>"}) == '{"a": "<é>"}'
    assert _user("{{ question | replace('W', 'w') }}") == "why?"
    assert _user("{{ [1, 2] | join('; ') }}") == "1; 2"


def test_the_trailing_newline_of_a_template_is_rendered() -> None:
    assert _user("x\n") == "x\n"


def test_data_is_never_rendered_again() -> None:
    assert (
        _user("{{ question }}", question="{{ metadata.secret }}", metadata={"secret": "s"}) == "{{ metadata.secret }}"
    )


@given(st.text(alphabet=st.characters(codec="utf-8")))
def test_rendering_does_not_change_a_question(question: str) -> None:
    assert _user("<{{ question }}>", question=question) == f"<{question}>"


@pytest.mark.parametrize(
    "template",
    [
        "{{ questions }}",
        "{{ range(10) }}",
        "{{ question.__class__.__mro__ }}",
        "{{ question['__class__'] }}",
        "{{ metadata.__class__ }}",
        "{{ question.format(1) }}",
        "{{ 'x' * 1000000000 }}",
        "{{ 9 ** 9 ** 9 }}",
        "{{ '%1000000000d' % 1 }}",
        "{% set x = 1 %}",
        "{% include 'x' %}",
        "{% macro m() %}{% endmacro %}",
        "{% for a in question %}{% for b in question %}{% endfor %}{% endfor %}",
        "{% for a in [question] recursive %}{% endfor %}",
        "{% if %}",
        "a\n{{ question",
        "{{ question | attr('x') }}",
        "{{ question | nope }}",
        "{{ 1 is callable }}",
        "{{ 1 // 0 }}",
        "{{ metadata.doc_clas }}",
        "{{ metadata.total }}",
        "{% for i in question %}{{ loop.cycle }}{% endfor %}",
        "{{ question + 1 }}",
        pytest.param("x" * (MAX_TEMPLATE_CHARS + 1), id="too long"),
    ],
)
def test_a_template_that_is_not_allowed_is_refused(template: str, wording: Wording) -> None:
    with pytest.raises(InvalidInput) as refused:
        _user(template, metadata={"doc_class": "c"})
    assert refused.value.code == "prompt"
    wording(refused.value)


@pytest.mark.parametrize(
    "template",
    [
        pytest.param("{{ " + "(" * 3000 + "1" + ")" * 3000 + " }}", id="parentheses"),
        pytest.param("{{ " + "(1+" * 300 + "question" + ")" * 300 + " }}", id="sums"),
    ],
)
def test_a_template_that_is_nested_too_deeply_is_refused(template: str, wording: Wording) -> None:
    with pytest.raises(InvalidInput) as refused:
        _user(template)
    wording(refused.value)


def test_a_template_that_uses_empty_metadata_is_refused(wording: Wording) -> None:
    with pytest.raises(InvalidInput, match="'total'") as refused:
        _user("{{ metadata.total }}")
    wording(refused.value)


@pytest.mark.parametrize(
    "template",
    [
        "{% for c in question %}{{ question }}{% endfor %}",
        "{{ [question, question, question] | join(question) }}",
        "{{ question | replace('x', question) }}",
    ],
)
def test_a_prompt_that_is_too_long_is_refused(template: str) -> None:
    with pytest.raises(InvalidInput, match=str(MAX_PROMPT_CHARS)):
        _user(template, question="x" * (MAX_PROMPT_CHARS // 4))


def test_every_wrong_template_of_a_prompt_is_named() -> None:
    spec = _prompt(
        "{{ q }}",
        fixed_system_prompt="{{",
        type_mapping={"a": {"user_prompt": "{{ question }}"}, "b": {"system_prompt": "{{ x }}"}},
    )
    assert [path for path, _ in check_templates(spec)] == [
        ("user_prompt",),
        ("fixed_system_prompt",),
        ("type_mapping", "b", "system_prompt"),
    ]
    assert check_templates(_prompt()) == []


@pytest.mark.parametrize(
    "template",
    [
        "{{ 1e999 }}",
        "{{ -1e999 }}",
        "{{ " + "1" * 5000 + " }}",
        '{{ "\\ud800" }}',
        "{{ metadata['\\udfff'] }}",
        "{{ 'x' | default(1e999) }}",
    ],
)
def test_a_constant_that_no_request_can_carry_is_refused_before_anything_is_rendered(template: str) -> None:
    spec = _prompt(template)
    assert [path for path, _ in check_templates(spec)] == [("user_prompt",)]
    with pytest.raises(InvalidInput) as raised:
        render(spec, question="", metadata={})
    assert (raised.value.code, bool(raised.value.cure)) == ("prompt", True)


def test_an_unpaired_surrogate_in_a_sample_is_refused(wording: Wording) -> None:
    with pytest.raises(InvalidInput) as refused:
        _user("{{ question }}", question="\ud800")
    wording(refused.value)


def test_a_value_that_cannot_be_an_integer_is_refused() -> None:
    for value in (1e308, "1e999", "9" * 5000, "x"):
        _user("{{ metadata.x | int }}", metadata={"x": value})
    with pytest.raises(InvalidInput):
        _user("{{ metadata.x + metadata.y }}", metadata={"x": 1, "y": "z"})


def test_metadata_that_is_nested_too_deeply_is_refused(wording: Wording) -> None:
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(InvalidInput) as refused:
        _user("{{ metadata.x | tojson }}", metadata={"x": deep})
    wording(refused.value)


def test_compiling_a_template_evaluates_none_of_its_constants() -> None:
    endless = "{{ '\"' " + "| tojson " * 60 + "}}"
    assert check_templates(_prompt(endless)) == []
    assert check_templates(_prompt("{{ 1 | round(1000000000, 'ceil') }}")) == []


@pytest.mark.parametrize(
    "template",
    [
        "plain",
        "{{ question }}",
        "{% if metadata.kind == 'total' and question is defined %}{{ question | trim | upper }}{% else %}-{% endif %}",
        "{{ metadata.json_schema | tojson }}",
        "{{ metadata['items'][0] | default('-') | lower }}",
        "{{ not question }}",
        "{{ question if metadata.x else '' }}",
        "{{ ",
        "{{ " + "1" * 5000 + " }}",
    ],
)
def test_a_template_without_loops_lists_and_doubling_is_linear(template: str) -> None:
    assert is_linear(_prompt(template))


@pytest.mark.parametrize(
    "template",
    [
        "{% for x in metadata.x %}{% endfor %}",
        "{{ [question, question] }}",
        "{{ question ~ question }}",
        "{{ question + question }}",
        "{{ question | tojson | tojson }}",
        "{{ question | tojson | upper | tojson }}",
        "{{ metadata | string }}",
        "{{ question | replace('a', question) }}",
        "{{ question | trim(question) }}",
        "{{ 1 | round(9) }}",
        "{{ question | upper }}" * 101,
    ],
)
def test_a_template_whose_cost_could_grow_is_not_linear(template: str) -> None:
    assert not is_linear(_prompt("{{ question }}", system_prompt=template))
    assert not is_linear(_prompt("{{ question }}", type_mapping={"a": {"user_prompt": template}}))
