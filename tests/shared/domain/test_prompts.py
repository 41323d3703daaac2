"""Prompts: which template wins, what it may reach, and how it says no."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vlmhyperbench.domain.prompts import LONGEST_TEMPLATE, check_templates, is_linear, render
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


def test_the_trailing_newline_of_a_template_is_kept() -> None:
    assert _user("x\n") == "x\n"


def test_data_is_never_rendered_again() -> None:
    assert (
        _user("{{ question }}", question="{{ metadata.secret }}", metadata={"secret": "s"}) == "{{ metadata.secret }}"
    )


@given(st.text(alphabet=st.characters(codec="utf-8")))
def test_any_question_comes_out_as_it_went_in(question: str) -> None:
    assert _user("<{{ question }}>", question=question) == f"<{question}>"


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("{{ questions }}", "line 1: there is no variable 'questions', only question and metadata"),
        ("{{ range(10) }}", "a call is not allowed"),
        ("{{ question.__class__.__mro__ }}", "there is no '__class__'"),
        ("{{ question['__class__'] }}", "there is no item '__class__'"),
        ("{{ metadata.__class__ }}", "there is no '__class__'"),
        ("{{ question.format(1) }}", "a call is not allowed"),
        ("{{ 'x' * 1000000000 }}", "a multiplication is not allowed"),
        ("{{ 9 ** 9 ** 9 }}", "a power is not allowed"),
        ("{{ '%1000000000d' % 1 }}", "a modulo is not allowed"),
        ("{% set x = 1 %}", "an assignment is not allowed"),
        ("{% include 'x' %}", "an include is not allowed"),
        ("{% macro m() %}{% endmacro %}", "a macro is not allowed"),
        ("{% for a in question %}{% for b in question %}{% endfor %}{% endfor %}", "a loop in a loop"),
        ("{% for a in [question] recursive %}{% endfor %}", "a loop in a loop"),
        ("{% if %}", "line 1: Expected an expression"),
        ("a\n{{ question", "line 2: "),
        ("{{ question | attr('x') }}", "No filter named 'attr'"),
        ("{{ question | nope }}", "No filter named 'nope'"),
        ("{{ 1 is callable }}", "No test named 'callable'"),
        ("{{ 1 // 0 }}", "floordiv is not allowed"),
        ("{{ metadata.doc_clas }}", "there is no 'doc_clas' (did you mean 'doc_class'?)"),
        ("{{ metadata.total }}", "there is no 'total' (there are doc_class)"),
        ("{% for i in question %}{{ loop.cycle }}{% endfor %}", "there is no 'cycle'"),
        ("{{ question + 1 }}", "can only concatenate str"),
        ("x" * (LONGEST_TEMPLATE + 1), "a template is longer than"),
    ],
)
def test_a_template_that_reaches_too_far_is_refused(template: str, message: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        _user(template, metadata={"doc_class": "c"})
    assert message in str(raised.value)
    assert raised.value.message.startswith("The user prompt of 'p' cannot be rendered: ")


@pytest.mark.parametrize(
    "template",
    ["{{ " + "(" * 3000 + "1" + ")" * 3000 + " }}", "{{ " + "(1+" * 300 + "question" + ")" * 300 + " }}"],
)
def test_a_template_that_is_nested_too_deeply_is_refused(template: str) -> None:
    with pytest.raises(InvalidInput, match="nested too deeply"):
        _user(template)


def test_metadata_without_keys_says_so() -> None:
    with pytest.raises(InvalidInput, match="there are none"):
        _user("{{ metadata.total }}")


@pytest.mark.parametrize(
    "template",
    [
        "{% for c in question %}{{ question }}{% endfor %}",
        "{{ [question, question, question] | join(question) }}",
        "{{ question | replace('x', question) }}",
    ],
)
def test_a_prompt_that_grows_without_bound_is_cut_off(template: str) -> None:
    with pytest.raises(InvalidInput, match=f"longer than {MAX_PROMPT_CHARS} characters"):
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


def test_half_a_surrogate_pair_in_a_sample_is_refused() -> None:
    with pytest.raises(InvalidInput, match="half a surrogate pair") as raised:
        _user("{{ question }}", question="\ud800")
    assert (raised.value.code, bool(raised.value.cure)) == ("prompt", True)


def test_a_value_that_cannot_be_an_integer_is_refused() -> None:
    for value in (1e308, "1e999", "9" * 5000, "x"):
        _user("{{ metadata.x | int }}", metadata={"x": value})
    with pytest.raises(InvalidInput):
        _user("{{ metadata.x + metadata.y }}", metadata={"x": 1, "y": "z"})


def test_metadata_that_is_nested_too_deeply_to_be_written_is_refused() -> None:
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(InvalidInput, match="too much memory"):
        _user("{{ metadata.x | tojson }}", metadata={"x": deep})


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
