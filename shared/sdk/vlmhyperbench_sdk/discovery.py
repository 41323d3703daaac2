"""Find plugins by entry point: `vlmhyperbench.metrics`, and the same with every other name of `Group`.

Two packages that register the same name in a group are an error; an unknown name is refused with the
nearest ones. Nothing is imported before it is asked for.
"""

from __future__ import annotations

import importlib
import inspect
import re
import traceback
from collections import defaultdict
from collections.abc import Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Literal, cast

from vlmhyperbench_sdk.errors import Conflict, InvalidInput, NotFound, PluginFailure, VlmHyperBenchError
from vlmhyperbench_sdk.protocols import Metric
from vlmhyperbench_sdk.suggestions import did_you_mean
from vlmhyperbench_sdk.types import JsonValue

_INSTALL = "Install its package, or put its folder into PYTHONPATH, for the stack and for every command."
_CORRECT = "Correct the module, or install what it needs."

Group = Literal["metrics", "datasets", "prompts", "backends", "reports", "aggregations"]


def names(group: Group) -> list[str]:
    """Return all registered names of a group, sorted."""
    return sorted(entry_points(group=f"vlmhyperbench.{group}").names)


def load(group: Group, name: str) -> type:
    """Import the plugin class behind a registered name, or behind a dotted path `package.module:Class`.

    Raises:
        NotFound: no distribution registers the name, or there is no such module or class; the message suggests names.
        Conflict: two distributions register it.
        PluginFailure: its module fails when it is imported.
        InvalidInput: a dotted path without a class.
        VlmHyperBenchError: its module raised it on purpose, as where a library is missing.
    """
    if ":" in name or "." in name:
        return _import(name, name)
    points = _by_name(group).get(name, [])
    if not points:
        cure = did_you_mean(name, names(group), nothing="Correct the name, or install its package.")
        raise NotFound(f"No {group[:-1]} is registered as {name!r}.", cure=cure)
    if len(points) > 1:
        owners = ", ".join(sorted(point.dist.name for point in points if point.dist))
        raise Conflict(f"The name {name!r} in {group} is registered by {owners}.", cure="Uninstall all but one.")
    dist = points[0].dist
    return _import(points[0].value, name, f" of {dist.name} {dist.version}" if dist is not None else "")


def construct(group: Group, name: str, params: Mapping[str, JsonValue], *, called: str) -> object:
    """Import a plugin class and call it with keyword params; `called` is the plugin's name in error messages.

    Raises:
        NotFound: no distribution registers the name.
        InvalidInput: the plugin refuses its params.
        Conflict: two distributions register the name.
        PluginFailure: importing or constructing it failed.
    """
    plugin = load(group, name)
    what = f"{group[:-1]} {called!r}"
    _check_params(plugin, params, what)
    try:
        return plugin(**params)
    except VlmHyperBenchError:
        raise
    except TypeError as error:
        raise InvalidInput(f"The {what} refuses its params: {error}.", cure=_known_params(plugin)) from error
    except Exception as error:  # the plugin's constructor runs here, and may raise anything
        message = f"The {what} cannot be constructed: it raises {type(error).__name__} ({error})."
        raise PluginFailure(message, cure=f"Correct its params, or the class {plugin.__qualname__}.") from error


def construct_metric(class_path: str, params: Mapping[str, JsonValue], *, name: str) -> Metric:
    """Find and construct a metric by its registered name or its dotted path; `name` is its name in errors.

    Raises:
        NotFound: no package registers it.
        InvalidInput: it refuses its profile or params.
        Conflict: two packages register the name.
        PluginFailure: importing or constructing it failed.
    """
    metric = cast("Metric", construct("metrics", class_path, params, called=name))
    try:
        metric.description  # noqa: B018 -- reports a description that cannot be made before anything is measured
    except VlmHyperBenchError:
        raise
    except Exception as error:  # the plugin's own code runs here, and may raise anything
        message = f"The description of the metric {name!r} cannot be read: it raises {type(error).__name__} ({error})."
        raise PluginFailure(message, cure="Correct the property description of the metric's class.") from error
    return metric


def _check_params(plugin: type, params: Mapping[str, JsonValue], what: str) -> None:
    """Refuse unknown params, and text where the default is a boolean, because to Python all text but '' is true."""
    known = inspect.signature(plugin).parameters if params else {}
    takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in known.values())
    for param, value in params.items():
        if param not in known:
            if takes_any:
                continue
            raise InvalidInput(f"The {what} has no param {param[:100]!r}.", cure=_known_params(plugin))
        if isinstance(known[param].default, bool) and not isinstance(value, bool):
            message = f"The {what} refuses its params: {param} cannot be {str(value)[:100]!r}."
            raise InvalidInput(message, cure="Write true or false, without quotes.")


def _known_params(plugin: type) -> str:
    names = [name for name in inspect.signature(plugin).parameters if name not in {"self", "args", "kwargs"}]
    return f"Choose from its params: {', '.join(names)}." if names else "Leave its params out."


def owners(group: Group, name: str) -> frozenset[str]:
    """Return the normalised names of a registered name's distributions, or of a dotted path's top package."""
    if "." in name or ":" in name:
        return frozenset({normalise(re.split(r"[.:]", name, maxsplit=1)[0])})
    points = _by_name(group).get(name, [])
    return frozenset(normalise(point.dist.name) for point in points if point.dist is not None)


def normalise(distribution: str) -> str:
    """Return the normalised name of a distribution (PEP 503)."""
    return re.sub(r"[-_.]+", "-", distribution).lower()


def _by_name(group: Group) -> dict[str, list[EntryPoint]]:
    points: dict[str, list[EntryPoint]] = defaultdict(list)
    for point in entry_points(group=f"vlmhyperbench.{group}"):
        if point.value not in {known.value for known in points[point.name]}:
            points[point.name].append(point)
    return points


def _import(path: str, name: str, owner: str = "") -> type:
    module, _, attribute = path.partition(":") if ":" in path else path.rpartition(".")
    if not all(part.isidentifier() for part in (*module.split("."), attribute)):
        raise InvalidInput(f"{path!r} is not a dotted path to a class.", cure="Write package.module:Class.")
    plugin = f"The plugin {name!r}" if name == path else f"The plugin {name!r} ({path}{owner})"
    try:
        imported = importlib.import_module(module)
    except VlmHyperBenchError:
        raise
    except (Exception, SystemExit) as error:  # the plugin's module runs here, and may raise anything
        if isinstance(error, ModuleNotFoundError) and f"{module}.".startswith(f"{error.name}."):
            raise NotFound(f"{plugin} cannot be imported: there is no module {error.name!r}.", cure=_INSTALL) from error
        last_line = traceback.format_exception_only(error)[-1].strip()
        raise PluginFailure(f"{plugin} cannot be imported: {last_line}.", cure=_CORRECT) from error
    loaded = getattr(imported, attribute, None)
    if not isinstance(loaded, type):
        classes = sorted(name for name, value in vars(imported).items() if getattr(value, "__module__", "") == module)
        cure = did_you_mean(attribute, classes, nothing="Correct the path.")
        raise NotFound(f"{plugin}: the module {module!r} has no class {attribute!r}.", cure=cure)
    return loaded
