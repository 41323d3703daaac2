"""Render templates of people whom nobody knows, in bounded time and memory, without a child process.

A template can read values and loop over them, and nothing else: no calls, assignments, arithmetic, literals of lists
or joined texts, so that no expression is longer than the values that it reads. What remains is counted: every turn
of a loop and every filter is a step, and every piece of the result adds to its length.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from jinja2 import StrictUndefined, Template, TemplateError, Undefined, meta, nodes
from jinja2.runtime import Context, LoopContext
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import pass_context

from vlmhyperbench_sdk.errors import InvalidInput
from vlmhyperbench_sdk.suggestions import choose, did_you_mean

MAX_TEMPLATE_CHARS: Final = 20_000
MAX_RESULT_BYTES: Final = 1024 * 1024
MAX_STEPS: Final = 100_000
MAX_S: Final = 2.0

_METER: Final = "_meter"
_LOOP: Final = frozenset({"index", "index0", "first", "last", "length", "revindex"})
_NODES: Final = (
    *(nodes.Template, nodes.Output, nodes.TemplateData, nodes.Name, nodes.Const, nodes.Getattr, nodes.Getitem),
    *(nodes.Slice, nodes.Filter, nodes.Test, nodes.Compare, nodes.Operand, nodes.If, nodes.CondExpr, nodes.And),
    *(nodes.Or, nodes.Not, nodes.Neg, nodes.For, nodes.Keyword),
)
_TESTS: Final = ("defined", "none", "eq", "ne", "lt", "le", "gt", "ge", "in", "string", "number", "mapping", "sequence")
_SIMPLER: Final = "Write a simpler template."


class BoundedTemplate:
    """A compiled template over declared variables; an answer in a variable is never read as a template.

    Raises:
        InvalidInput: the source is too long, is no template, or does what no such template may.
    """

    def __init__(self, source: str, *, variables: Collection[str]) -> None:
        if len(source) > MAX_TEMPLATE_CHARS:
            raise InvalidInput(f"The template is longer than {MAX_TEMPLATE_CHARS:,} characters.", cure=_SIMPLER)
        try:
            parsed = _ENVIRONMENT.parse(source)
            _check(parsed, variables)
            for loop in list(parsed.find_all(nodes.For)):
                loop.iter = nodes.Filter(loop.iter, "_counted", [], [], None, None, lineno=loop.lineno)
            parsed.set_environment(_ENVIRONMENT)
            code = _ENVIRONMENT.compile(parsed)
        except (TemplateError, RecursionError, SyntaxError) as error:  # Python nests at most 20 loops
            reason = error.message if isinstance(error, TemplateError) else "it is nested too deeply"
            raise InvalidInput(f"The template is not valid: {reason}.", cure="Correct the template.") from error
        self._template = Template.from_code(_ENVIRONMENT, code, {})

    def render(self, values: Mapping[str, object], *, clock: Callable[[], float] = time.monotonic) -> str:
        """Render it with a value for each variable; `clock` gives seconds.

        Raises:
            InvalidInput: a value that it names does not exist, or it takes too long, or its result is too large.
        """
        meter = _Meter(clock=clock, deadline=clock() + MAX_S)
        pieces: list[str] = []
        length = 0
        try:
            for piece in self._template.generate({**values, _METER: meter}):
                meter.step()
                length += len(piece.encode("utf-8", "surrogatepass"))
                if length > MAX_RESULT_BYTES:
                    raise _too_large()
                pieces.append(piece)
        except (TemplateError, TypeError, ValueError, RecursionError) as error:
            raise InvalidInput(f"The template cannot be rendered: {error}.", cure="Correct the template.") from error
        return "".join(pieces)


@dataclass(slots=True, kw_only=True)
class _Meter:
    """Counts the steps of one rendering."""

    clock: Callable[[], float]
    deadline: float
    steps: int = 0

    def step(self) -> None:
        self.steps += 1
        if self.steps > MAX_STEPS or self.clock() > self.deadline:
            message = f"The template takes more than {MAX_STEPS:,} steps or {MAX_S:g} s."
            raise InvalidInput(message, cure=_SIMPLER)


class _Environment(ImmutableSandboxedEnvironment):
    """Reads items of values only: an attribute or method of a Python object is nothing."""

    def getattr(self, obj: Any, attribute: str) -> Any:
        if isinstance(obj, LoopContext) and attribute in _LOOP:
            return getattr(obj, attribute)
        return self.getitem(obj, attribute)

    def getitem(self, obj: Any, argument: Any) -> Any:
        if isinstance(obj, Mapping) and isinstance(argument, str) and argument in obj:
            return obj[argument]
        if isinstance(obj, (list, tuple, str)) and isinstance(argument, (int, slice)):
            try:
                return obj[argument]
            except (IndexError, ValueError):
                pass
        return self.undefined(obj=obj if isinstance(obj, (Mapping, Undefined)) else {}, name=argument)


def _check(parsed: nodes.Template, variables: Collection[str]) -> None:
    for node in parsed.find_all(nodes.Node):
        if isinstance(node, nodes.Tuple) and node.ctx == "store":
            continue
        if not isinstance(node, (*_NODES, nodes.Helper)) or (isinstance(node, nodes.For) and node.recursive):
            message = f"The template holds {type(node).__name__} at line {node.lineno}, which is not allowed."
            raise InvalidInput(message, cure="Use variables, filters, tests, if and for only.")
        if isinstance(node, nodes.Filter) and node.name not in _FILTERS:
            raise InvalidInput(f"The template has no filter {node.name!r}.", cure=choose(sorted(_FILTERS)))
        if isinstance(node, nodes.Test) and node.name not in _TESTS:
            raise InvalidInput(f"The template has no test {node.name!r}.", cure=choose(sorted(_TESTS)))
        if isinstance(node, nodes.Name) and node.name.startswith("_"):
            raise InvalidInput(f"The template has no variable {node.name!r}.", cure=choose(sorted(variables)))
    for name in sorted(meta.find_undeclared_variables(parsed) - set(variables)):
        raise InvalidInput(f"The template has no variable {name!r}.", cure=did_you_mean(name, variables))


def _too_large() -> InvalidInput:
    return InvalidInput(f"The result of the template is larger than {MAX_RESULT_BYTES // 1024:,} KiB.", cure=_SIMPLER)


def _meter_of(context: Context) -> _Meter:
    meter = context[_METER]
    assert isinstance(meter, _Meter)  # noqa: S101 -- `render` puts it there, and no template may name it
    return meter


@pass_context
def _counted(context: Context, values: Iterable[object]) -> Iterator[object]:
    meter = _meter_of(context)
    for value in values:
        meter.step()
        yield value


@pass_context
def _joined(context: Context, values: Iterable[object], separator: str = "", attribute: str | None = None) -> str:
    pieces: list[str] = []
    length = 0
    for value in _counted(context, values):
        piece = str(value if attribute is None else _ENVIRONMENT.getitem(value, attribute))
        length += len(piece) + len(separator)
        if length > MAX_RESULT_BYTES:
            raise _too_large()
        pieces.append(piece)
    return separator.join(pieces)


@pass_context
def _as_json(context: Context, value: object) -> str:
    _meter_of(context).step()
    return json.dumps(value, ensure_ascii=False, sort_keys=True)


def _of_text(change: Callable[[str], object]) -> Callable[..., object]:
    @pass_context
    def changed(context: Context, value: object) -> object:
        _meter_of(context).step()
        return change(str(value))

    return changed


@pass_context
def _length(context: Context, value: Any) -> int:
    _meter_of(context).step()
    return len(value)


def _first(values: Any) -> object:
    return _ENVIRONMENT.getitem(values, 0)


def _last(values: Any) -> object:
    return _ENVIRONMENT.getitem(values, -1)


def _default(value: object, other: object = "") -> object:
    return other if isinstance(value, Undefined) or value is None else value


_FILTERS: Final[dict[str, Callable[..., object]]] = {
    "default": _default,
    "first": _first,
    "join": _joined,
    "last": _last,
    "length": _length,
    "lower": _of_text(str.lower),
    "tojson": _as_json,
    "trim": _of_text(str.strip),
    "upper": _of_text(str.upper),
}
_ENVIRONMENT: Final = _Environment(undefined=StrictUndefined, optimized=False, keep_trailing_newline=True, cache_size=0)
_ENVIRONMENT.filters = {**_FILTERS, "_counted": _counted}
_ENVIRONMENT.tests = {name: _ENVIRONMENT.tests[name] for name in _TESTS}
_ENVIRONMENT.globals = {}
