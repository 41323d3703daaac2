"""Render the prompt of a sample from sandboxed templates. Pure.

A template sees only `question` and `metadata`. It cannot call functions, read attributes of Python objects, assign,
include or nest loops, and its result has at most `MAX_PROMPT_CHARS` characters. Data is never rendered as a template.

A chain of filters can still double a text at every filter. So a worker itself renders only templates of which
`is_linear` is true, and renders others in a child process with bounded time and memory. Compiling a template evaluates
none of its expressions.
"""

from __future__ import annotations

import difflib
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from jinja2 import StrictUndefined, Template, TemplateError, TemplateSyntaxError, Undefined, nodes
from jinja2.compiler import CodeGenerator, Frame
from jinja2.runtime import LoopContext
from jinja2.sandbox import ImmutableSandboxedEnvironment
from pydantic import JsonValue

from vlmhyperbench.domain.specs import PromptSpec, PromptText
from vlmhyperbench_sdk.checks import MAX_PROMPT_CHARS
from vlmhyperbench_sdk.errors import InvalidInput
from vlmhyperbench_sdk.suggestions import did_you_mean
from vlmhyperbench_sdk.types import JsonObject, Prompt

MAX_TEMPLATE_CHARS: Final = 20_000

VARIABLES: Final = frozenset({"question", "metadata"})

FILTERS: Final = (
    *("abs", "capitalize", "count", "d", "default", "dictsort", "first", "float", "int", "items", "join", "last"),
    *("length", "list", "lower", "max", "min", "reject", "rejectattr", "replace", "reverse", "round", "select"),
    *("selectattr", "sort", "string", "sum", "title", "tojson", "trim", "truncate", "unique", "upper"),
)
TESTS: Final = (
    *("boolean", "defined", "divisibleby", "eq", "equalto", "even", "false", "float", "ge", "gt", "in", "integer"),
    *("iterable", "le", "lower", "lt", "mapping", "ne", "none", "number", "odd", "sequence", "string", "true"),
    *("undefined", "upper"),
)
_LINEAR_FILTERS: Final = frozenset(
    {"capitalize", "count", "d", "default", "first", "last", "length", "lower", "tojson", "trim", "upper"}
)
"""Filters whose result is at most a few times longer than their input; in a chain, only `tojson` could double it."""
_LINEAR_NODES: Final = (
    *(nodes.Template, nodes.Output, nodes.TemplateData, nodes.Name, nodes.Const, nodes.Getattr, nodes.Getitem),
    *(nodes.Filter, nodes.Test, nodes.Compare, nodes.Operand, nodes.If, nodes.CondExpr, nodes.And, nodes.Or, nodes.Not),
)
_MAX_OPERATIONS: Final = 100
"""Maximum number of filters, tests and comparisons in a linear template, each of which may read the whole sample."""
_CORRECT: Final = "Correct the template, or the samples' metadata."
_SIMPLER: Final = "Write a simpler template."
_LOOP_ATTRIBUTES: Final = frozenset({"index", "index0", "first", "last", "length"})
_NODES: Final = (
    *(nodes.Template, nodes.Output, nodes.TemplateData, nodes.Name, nodes.Const, nodes.Getattr, nodes.Getitem),
    *(nodes.Slice, nodes.Filter, nodes.Test, nodes.Compare, nodes.Operand, nodes.If, nodes.CondExpr, nodes.And),
    *(nodes.Or, nodes.Not, nodes.Neg, nodes.Pos, nodes.Add, nodes.Sub, nodes.Concat, nodes.List, nodes.Tuple),
    *(nodes.Dict, nodes.Pair, nodes.For, nodes.Keyword),
)
_NAMES: Final = {
    nodes.Call: "a call",
    nodes.Assign: "an assignment",
    nodes.AssignBlock: "an assignment",
    nodes.Include: "an include",
    nodes.Import: "an import",
    nodes.FromImport: "an import",
    nodes.Extends: "an extends",
    nodes.Macro: "a macro",
    nodes.Mul: "a multiplication",
    nodes.Pow: "a power",
    nodes.Mod: "a modulo",
    nodes.Div: "a division",
    nodes.FloorDiv: "a division",
}


def render(spec: PromptSpec, *, question: str, metadata: JsonObject) -> Prompt:
    """Render the prompt of one sample.

    For each field the fixed template applies, else that of the sample's type, else the default. An empty system prompt
    is left out.

    Raises:
        InvalidInput: a template is not valid, or uses metadata that the sample does not have; or the collection has no
            prompt for the sample.
    """
    mapped = _mapping_of(spec, metadata)
    if mapped.user_prompt is None and spec.fixed_prompt is None:
        _check_has_default(spec, metadata)
    user = _first(spec.fixed_prompt, mapped.user_prompt, spec.user_prompt)
    system = _first(spec.fixed_system_prompt, mapped.system_prompt, spec.system_prompt)
    values = {"question": question, "metadata": metadata}
    return Prompt(
        user=_fill(spec.name, "user prompt", user or "", values),
        system=_fill(spec.name, "system prompt", system, values) or None if system is not None else None,
    )


def is_linear(spec: PromptSpec) -> bool:
    """Return whether the time and memory of rendering are linear in the templates and the sample.

    A linear template has no loop, builds no list, and has no chain of filters that could multiply a text. Templates
    that are not valid count as linear, since they are refused before rendering.
    """
    return all(_is_linear(source) for _, source in _sources(spec))


def check_templates(spec: PromptSpec) -> list[tuple[tuple[str, ...], str]]:
    """Return the errors of a prompt's templates as (path of the field, message)."""
    problems = ((path, _problem_of(source)) for path, source in _sources(spec))
    return [(path, problem) for path, problem in problems if problem is not None]


def _problem_of(source: str) -> str | None:
    try:
        _compile(source)
    except InvalidInput as error:
        return error.message
    return None


def _sources(spec: PromptSpec) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield each template of a prompt with the path of its field."""
    for name in ("user_prompt", "system_prompt", "fixed_prompt", "fixed_system_prompt"):
        source = getattr(spec, name)
        if source is not None:
            yield (name,), source
    for kind, text in spec.type_mapping.items():
        for name in ("user_prompt", "system_prompt"):
            source = getattr(text, name)
            if source is not None:
                yield ("type_mapping", kind, name), source


def _mapping_of(spec: PromptSpec, metadata: JsonObject) -> PromptText:
    return next((spec.type_mapping[name] for name in _types_of(metadata) if name in spec.type_mapping), PromptText())


def _types_of(metadata: JsonObject) -> list[str]:
    """Return the types under which a sample's templates may be written, the narrowest first."""
    kinds = [kind for name in ("doc_type", "doc_class") if isinstance(kind := metadata.get(name), str)]
    question = metadata.get("question_type")
    return [*(f"{kind} {question}" for kind in kinds if isinstance(question, str)), *kinds]


def _check_has_default(spec: PromptSpec, metadata: JsonObject) -> None:
    collection = spec.collection
    if collection is None or collection.has_default:
        return
    types = _types_of(metadata)
    if not types:
        lack = "a sample has neither doc_type nor doc_class"
        cure = "Add one of them to the dataset, or a prompt for `default` to the collection."
    else:
        lack = f"there is none for {types[0]!r}"
        cure = f"{did_you_mean(types[0], spec.type_mapping)} Or add a prompt for `default`."
    message = f"The collection {collection.path} of the prompt {spec.name!r} has no prompt for a sample: {lack}."
    raise InvalidInput(message, cure=cure, code="prompt")


def _first(*candidates: str | None) -> str | None:
    return next((text for text in candidates if text is not None), None)


def _fill(prompt: str, field: str, source: str, values: Mapping[str, object]) -> str:
    pieces: list[str] = []
    length = 0
    try:
        for piece in _compile(source).generate(values):
            length += len(piece)
            if length > MAX_PROMPT_CHARS:
                raise InvalidInput(f"it is longer than {MAX_PROMPT_CHARS} characters")
            pieces.append(piece)
        text = "".join(pieces)
        text.encode()
    except UnicodeEncodeError as error:
        message = f"The {field} of {prompt!r} has an unpaired surrogate, which no request can carry."
        raise InvalidInput(message, cure="Correct the template or the sample.", code="prompt") from error
    except (RecursionError, MemoryError) as error:
        message = f"The {field} of {prompt!r} cannot be rendered: it takes too much memory."
        raise InvalidInput(message, cure=_SIMPLER, code="prompt") from error
    except (InvalidInput, TemplateError, TypeError, ValueError, ArithmeticError, LookupError) as error:
        message = f"The {field} of {prompt!r} cannot be rendered: {str(error).removesuffix('.')}."
        raise InvalidInput(message, cure=_CORRECT, code="prompt") from error
    return text


@lru_cache(maxsize=256)
def _compile(source: str) -> Template:
    if len(source) > MAX_TEMPLATE_CHARS:
        raise InvalidInput(f"a template is longer than {MAX_TEMPLATE_CHARS} characters")
    try:
        tree = _parse(source)
        problems = list(_problems(tree, inside_loop=False))
        if problems:
            raise InvalidInput("; ".join(problems))
        return _SANDBOX.from_string(tree)
    except (RecursionError, SyntaxError, MemoryError) as error:
        raise InvalidInput("a template is nested too deeply") from error
    except TemplateSyntaxError as error:
        raise InvalidInput(f"line {error.lineno}: {error.message}") from error


def _parse(source: str) -> nodes.Template:
    try:
        return _SANDBOX.parse(source)
    except ValueError as error:
        raise InvalidInput("a number has too many digits, or an escape sequence is not valid") from error


@lru_cache(maxsize=256)
def _is_linear(source: str) -> bool:
    try:
        tree = _SANDBOX.parse(source[: MAX_TEMPLATE_CHARS + 1])
        inner_nodes = list(tree.find_all(nodes.Node))
    except (TemplateSyntaxError, ValueError, RecursionError, SyntaxError, MemoryError):
        return True
    operations = sum(isinstance(node, (nodes.Filter, nodes.Test, nodes.Compare)) for node in inner_nodes)
    return operations <= _MAX_OPERATIONS and not any(_may_multiply(node) for node in inner_nodes)


def _may_multiply(node: nodes.Node) -> bool:
    """Return whether a node is a loop, builds a value from values, or is a filter whose result can be much longer."""
    if not isinstance(node, nodes.Filter):
        return not isinstance(node, _LINEAR_NODES)
    is_doubling = node.name == "tojson" and any(inner.name == "tojson" for inner in node.find_all(nodes.Filter))
    return node.name not in _LINEAR_FILTERS or is_doubling or (node.name == "trim" and bool(node.args or node.kwargs))


def _problems(node: nodes.Node, *, inside_loop: bool, bound: frozenset[str] = VARIABLES) -> Iterator[str]:
    """Walk the syntax tree and yield everything that is not allowed in a template."""
    if not isinstance(node, _NODES):
        what = _NAMES.get(type(node), type(node).__name__.lower())
        yield f"line {node.lineno}: {what} is not allowed in a prompt"
        return
    if isinstance(node, nodes.Name) and node.ctx == "load" and node.name not in bound:
        yield f"line {node.lineno}: there is no variable {node.name!r}, only question and metadata"
    if isinstance(node, nodes.Const) and not _is_plain(node.value):
        yield f"line {node.lineno}: a number is not finite, or a text has an unpaired surrogate"
    if isinstance(node, nodes.For):
        if inside_loop or node.recursive:
            yield f"line {node.lineno}: a loop in a loop is not allowed in a prompt"
        bound = bound | {"loop"} | {name.name for name in node.find_all(nodes.Name) if name.ctx == "store"}
        inside_loop = True
    for child in node.iter_child_nodes():
        yield from _problems(child, inside_loop=inside_loop, bound=bound)


def _is_plain(value: object) -> bool:
    """Return whether every request can carry a constant."""
    if isinstance(value, str):
        return not any("\ud800" <= character <= "\udfff" for character in value)
    return not isinstance(value, float) or math.isfinite(value)


class _Generator(CodeGenerator):
    """Compiles a template without evaluating constant expressions, which might never end."""

    def _output_child_to_const(self, node: nodes.Expr, frame: Frame, finalize: Any) -> str:
        if isinstance(node, nodes.TemplateData):
            return super()._output_child_to_const(node, frame, finalize)
        raise nodes.Impossible


class _Sandbox(ImmutableSandboxedEnvironment):
    """Gives access to keys of mappings and items of sequences, never to attributes of objects."""

    code_generator_class = _Generator

    def getattr(self, obj: Any, attribute: str) -> Any:
        if isinstance(obj, Mapping) and attribute in obj:
            return obj[attribute]
        if isinstance(obj, Undefined):
            return obj
        if isinstance(obj, LoopContext) and attribute in _LOOP_ATTRIBUTES:
            return getattr(obj, attribute)
        return self.undefined(f"there is no field {attribute!r}{_near(attribute, obj)}", name=attribute)

    def getitem(self, obj: Any, argument: Any) -> Any:
        if isinstance(obj, Mapping) and isinstance(argument, str):
            return self.getattr(obj, argument)
        if isinstance(obj, Sequence) and isinstance(argument, (int, slice)):
            try:
                return obj[argument]
            except IndexError:
                return self.undefined(f"there is no item {argument!r}", name=str(argument))
        return self.undefined(f"there is no item {argument!r}", name=str(argument))


def _near(name: str, obj: object) -> str:
    if not isinstance(obj, Mapping):
        return ""
    near = difflib.get_close_matches(name, [str(key) for key in obj], n=1)
    if near:
        return f" (did you mean {near[0]!r}?)"
    return f" (the fields are {', '.join(sorted(map(str, obj)))})" if obj else " (it has no fields)"


def _json(value: JsonValue) -> str:
    return json.dumps(value, ensure_ascii=False)


def _join(value: Sequence[JsonValue], separator: str = "") -> str:
    parts = [str(part) for part in value]
    if sum(map(len, parts)) + len(separator) * len(parts) > MAX_PROMPT_CHARS:
        raise InvalidInput(f"a join is longer than {MAX_PROMPT_CHARS} characters")
    return separator.join(parts)


def _replace(text: str, old: str, new: str) -> str:
    text, old, new = str(text), str(old), str(new)
    if len(text) + text.count(old) * len(new) > MAX_PROMPT_CHARS:
        raise InvalidInput(f"a replacement is longer than {MAX_PROMPT_CHARS} characters")
    return text.replace(old, new)


def _make_sandbox() -> _Sandbox:
    sandbox = _Sandbox(undefined=StrictUndefined, autoescape=False, keep_trailing_newline=True, optimized=False)
    own: dict[str, Callable[..., str]] = {"join": _join, "replace": _replace, "tojson": _json}
    sandbox.filters = {name: own.get(name, sandbox.filters[name]) for name in FILTERS}
    sandbox.tests = {name: test for name, test in sandbox.tests.items() if name in TESTS}
    sandbox.globals.clear()
    return sandbox


_SANDBOX: Final = _make_sandbox()
