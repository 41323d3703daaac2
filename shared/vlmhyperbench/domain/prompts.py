"""What is really sent: the prompt of one sample, rendered from sandboxed templates; pure.

A template sees `question` and `metadata`, nothing else. It cannot call anything, reach an attribute of a Python object,
assign, include or nest loops, so what it costs is bounded by its own length and the sample's; what it makes is cut off
at `LONGEST_PROMPT`. Data is never rendered again.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from jinja2 import StrictUndefined, Template, TemplateError, TemplateSyntaxError, Undefined, nodes
from jinja2.runtime import LoopContext
from jinja2.sandbox import ImmutableSandboxedEnvironment
from pydantic import JsonValue

from vlmhyperbench.domain.specs import PromptSpec, PromptText
from vlmhyperbench_sdk.errors import InvalidInput
from vlmhyperbench_sdk.types import JsonObject, Prompt

LONGEST_TEMPLATE: Final = 20_000
LONGEST_PROMPT: Final = 1_000_000
"""Characters."""

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
}


def render(spec: PromptSpec, *, question: str, metadata: JsonObject) -> Prompt:
    """Render the prompt of one sample; per field: fixed, else the document type's, else the default.

    The document type is `metadata.doc_type`, else `metadata.doc_class`. A system prompt that comes out empty is none.

    Raises:
        InvalidInput: a template is wrong, or asks for metadata that the sample does not have.
    """
    mapped = _mapping_of(spec, metadata)
    user = _first(spec.fixed_prompt, mapped.user_prompt, spec.user_prompt)
    system = _first(spec.fixed_system_prompt, mapped.system_prompt, spec.system_prompt)
    values = {"question": question, "metadata": metadata}
    return Prompt(
        user=_fill(spec.name, "user prompt", user or "", values),
        system=_fill(spec.name, "system prompt", system, values) or None if system is not None else None,
    )


def check_templates(spec: PromptSpec) -> list[tuple[tuple[str, ...], str]]:
    """Say what is wrong with a prompt's templates: (path of the field, message), empty where nothing is."""
    fields: list[tuple[tuple[str, ...], str | None]] = [
        (("user_prompt",), spec.user_prompt),
        (("system_prompt",), spec.system_prompt),
        (("fixed_prompt",), spec.fixed_prompt),
        (("fixed_system_prompt",), spec.fixed_system_prompt),
    ]
    for name, text in spec.type_mapping.items():
        fields.append((("type_mapping", name, "user_prompt"), text.user_prompt))
        fields.append((("type_mapping", name, "system_prompt"), text.system_prompt))
    wrong: list[tuple[tuple[str, ...], str]] = []
    for path, source in fields:
        if source is None:
            continue
        try:
            _compile(source)
        except InvalidInput as error:
            wrong.append((path, error.message))
    return wrong


def _mapping_of(spec: PromptSpec, metadata: JsonObject) -> PromptText:
    for key in ("doc_type", "doc_class"):
        name = metadata.get(key)
        if isinstance(name, str) and name in spec.type_mapping:
            return spec.type_mapping[name]
    return PromptText()


def _first(*candidates: str | None) -> str | None:
    return next((text for text in candidates if text is not None), None)


def _fill(prompt: str, field: str, source: str, values: Mapping[str, object]) -> str:
    pieces: list[str] = []
    length = 0
    try:
        for piece in _compile(source).generate(values):
            length += len(piece)
            if length > LONGEST_PROMPT:
                raise InvalidInput(f"it is longer than {LONGEST_PROMPT} characters")
            pieces.append(piece)
    except (InvalidInput, TemplateError, TypeError, ValueError, ArithmeticError, LookupError) as error:
        raise InvalidInput(f"The {field} of {prompt!r} cannot be rendered: {error}.", code="prompt") from error
    return "".join(pieces)


@lru_cache(maxsize=256)
def _compile(source: str) -> Template:
    if len(source) > LONGEST_TEMPLATE:
        raise InvalidInput(f"a template is longer than {LONGEST_TEMPLATE} characters")
    try:
        tree = _SANDBOX.parse(source)
        problems = list(_problems(tree, inside_loop=False))
        if problems:
            raise InvalidInput("; ".join(problems))
        return _SANDBOX.from_string(tree)
    except (RecursionError, SyntaxError, MemoryError) as error:
        raise InvalidInput("a template is nested too deeply") from error
    except TemplateSyntaxError as error:
        raise InvalidInput(f"line {error.lineno}: {error.message}") from error


def _problems(node: nodes.Node, *, inside_loop: bool, bound: frozenset[str] = VARIABLES) -> Iterator[str]:
    """Walk the syntax tree and name everything that a template may not do."""
    if not isinstance(node, _NODES):
        what = _NAMES.get(type(node), type(node).__name__.lower())
        yield f"line {node.lineno}: {what} is not allowed in a prompt"
        return
    if isinstance(node, nodes.Name) and node.ctx == "load" and node.name not in bound:
        yield f"line {node.lineno}: there is no variable {node.name!r}, only question and metadata"
    if isinstance(node, nodes.For):
        if inside_loop or node.recursive:
            yield f"line {node.lineno}: a loop in a loop is not allowed in a prompt"
        bound = bound | {"loop"} | {name.name for name in node.find_all(nodes.Name) if name.ctx == "store"}
        inside_loop = True
    for child in node.iter_child_nodes():
        yield from _problems(child, inside_loop=inside_loop, bound=bound)


class _Sandbox(ImmutableSandboxedEnvironment):
    """Reaches keys of mappings and items of sequences, never an attribute of an object."""

    def getattr(self, obj: Any, attribute: str) -> Any:
        if isinstance(obj, Mapping) and attribute in obj:
            return obj[attribute]
        if isinstance(obj, Undefined):
            return obj
        if isinstance(obj, LoopContext) and attribute in _LOOP_ATTRIBUTES:
            return getattr(obj, attribute)
        return self.undefined(f"there is no {attribute!r}{_near(attribute, obj)}", name=attribute)

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
    return f" (did you mean {near[0]!r}?)" if near else f" (there are {', '.join(sorted(map(str, obj))) or 'none'})"


def _json(value: JsonValue) -> str:
    return json.dumps(value, ensure_ascii=False)


def _join(value: Sequence[JsonValue], separator: str = "") -> str:
    parts = [str(part) for part in value]
    if sum(map(len, parts)) + len(separator) * len(parts) > LONGEST_PROMPT:
        raise InvalidInput(f"a join is longer than {LONGEST_PROMPT} characters")
    return separator.join(parts)


def _replace(text: str, old: str, new: str) -> str:
    text, old, new = str(text), str(old), str(new)
    if len(text) + text.count(old) * len(new) > LONGEST_PROMPT:
        raise InvalidInput(f"a replacement is longer than {LONGEST_PROMPT} characters")
    return text.replace(old, new)


def _make_sandbox() -> _Sandbox:
    sandbox = _Sandbox(undefined=StrictUndefined, autoescape=False, keep_trailing_newline=True)
    own: dict[str, Callable[..., str]] = {"join": _join, "replace": _replace, "tojson": _json}
    sandbox.filters = {name: own.get(name, sandbox.filters[name]) for name in FILTERS}
    sandbox.tests = {name: test for name, test in sandbox.tests.items() if name in TESTS}
    sandbox.globals.clear()
    return sandbox


_SANDBOX: Final = _make_sandbox()
