"""Run plugins in an interpreter of their own: `python -I -m vlmhyperbench_sdk.metric_process MEMORY_BYTES`.

The platform starts it with the interpreter of a plugin's environment, so that the plugin's packages and the platform's
never meet. A request is a line of JSON on stdin, its reply a line on what was stdout; what a plugin itself prints goes
to stderr. Requests for samples and prompts are answered by `sample_process`. A request for a metric names it
(`class_path`, `params`, `optional`, `called`), opens it once, and asks one thing of it:

- `describe`: its description, and the distribution that it comes from
- `measure`: `predictions`, `references` and `metadata` of a batch, for the columns of its measures
- `combine`: `names` of statistics and `rows` of their sums, for the value of each row

A reply has a `result`; or an `error` of opening it (`kind`, `code`, `message`, `cure`); or what the metric `raised`.
"""

from __future__ import annotations

import inspect
import json
import os
import signal
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict
from importlib.metadata import entry_points, packages_distributions, version
from numbers import Real
from typing import Any

from vlmhyperbench_sdk import discovery
from vlmhyperbench_sdk.errors import PluginFailure, VlmHyperBenchError
from vlmhyperbench_sdk.protocols import Metric
from vlmhyperbench_sdk.sample_process import Samples


class _Metrics:
    """The metrics that were opened, by the JSON that names them: one that loads a model loads it once."""

    def __init__(self) -> None:
        self._asked: dict[str, Metric] = {}
        self._opened: dict[str, Metric] = {}

    def open(self, wanted: Mapping[str, Any]) -> Metric:
        """Return a metric; params in `optional` are only given to a class that has them.

        Raises:
            VlmHyperBenchError: it cannot be imported or constructed, or refuses its params.
        """
        asked = json.dumps(wanted, sort_keys=True)
        if asked not in self._asked:
            try:
                self._asked[asked] = self._find(**wanted)
            except VlmHyperBenchError:
                raise
            except BaseException as error:  # the module may even call sys.exit
                message = f"The metric {wanted['called']!r} cannot be opened: it raises {_words(error)}."
                raise PluginFailure(message, cure="Correct the module, or install what it needs.") from error
        return self._asked[asked]

    def _find(self, class_path: str, params: Mapping[str, Any], optional: Mapping[str, Any], called: str) -> Metric:
        known = inspect.signature(discovery.load("metrics", class_path)).parameters
        params = {**{name: value for name, value in optional.items() if name in known}, **params}
        key = json.dumps([class_path, params], sort_keys=True)
        if key not in self._opened:
            self._opened[key] = discovery.construct_metric(class_path, params, name=called)
        return self._opened[key]


def _describe(metric: Metric, _: object) -> dict[str, object]:
    return {"description": asdict(metric.description), "distribution": _distribution_of(type(metric))}


def _measure(metric: Metric, batch: Mapping[str, Any]) -> dict[str, object]:
    references = [tuple(accepted) for accepted in batch["references"]]
    measures = metric.measure(batch["predictions"], references, metadata=batch["metadata"])
    return {
        "values": list(measures.values),
        "reasons": list(measures.reasons),
        "statistics": {name: list(column) for name, column in measures.statistics.items()},
    }


def _combine(metric: Metric, sums: Mapping[str, Any]) -> list[float | None]:
    return [metric.combine(dict(zip(sums["names"], row, strict=True))) for row in sums["rows"]]


_ASKED: Mapping[str, Callable[[Metric, Any], object]] = {
    "describe": _describe,
    "measure": _measure,
    "combine": _combine,
}


def _distribution_of(metric: type) -> list[str] | None:
    """Return name and version of the distribution that a class comes from; None for a module without one."""
    path = f"{metric.__module__}:{metric.__qualname__}"
    for point in entry_points(group="vlmhyperbench.metrics"):
        if point.value == path and point.dist is not None:
            return [point.dist.name, point.dist.version]
    names = packages_distributions().get(metric.__module__.partition(".")[0])
    return [names[0], version(names[0])] if names else None


def _answer(metrics: _Metrics, samples: Samples, line: bytes) -> bytes:
    request = json.loads(line)
    if "metric" not in request:
        return _of_samples(samples, request)
    try:
        metric = metrics.open(request["metric"])
    except VlmHyperBenchError as error:
        return _refusal(error)
    try:
        return _line({"result": _ASKED[request["ask"]](metric, request["of"])})
    except BaseException as error:  # noqa: BLE001 -- the plugin's own code ran, and may even call sys.exit
        return _line({"raised": _words(error)})


def _of_samples(samples: Samples, request: Mapping[str, Any]) -> bytes:
    try:
        reply = samples.ask(request)
        return json.dumps({"result": reply}, allow_nan=False).encode() + b"\n"
    except VlmHyperBenchError as error:
        return _refusal(error)
    except BaseException as error:  # noqa: BLE001 -- the plugin's own code ran, and may even call sys.exit
        return _line({"raised": _words(error)})


def _refusal(error: VlmHyperBenchError) -> bytes:
    kind = type(error).__name__
    return _line({"error": {"kind": kind, "code": error.code, "message": error.message, "cure": error.cure}})


def _line(reply: Mapping[str, object]) -> bytes:
    try:
        return json.dumps(reply, default=_number, allow_nan=False).encode() + b"\n"
    except ValueError as error:
        raise PluginFailure("A metric gave a number that is not finite.") from error


def _number(value: object) -> float:
    """Return a number of another library (numpy's, say) as Python's; what is no number is refused by its type."""
    if isinstance(value, Real):
        return float(value)
    raise PluginFailure(f"A metric gave a {type(value).__name__} instead of a number.")


def _words(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


def _limit_memory(max_bytes: int) -> None:
    """Limit what this process may allocate; memory that is only reserved, as by CUDA or Java, does not count."""
    import resource

    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    allowed = max_bytes if hard == resource.RLIM_INFINITY else min(max_bytes, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (allowed, allowed))
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))


def main() -> int:
    """Answer requests until stdin ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # only the parent handles Ctrl-C
    _limit_memory(int(sys.argv[1]))
    # Copies of both pipes, which the plugin's own processes do not inherit; it reads nothing, and prints to stderr.
    with os.fdopen(os.dup(0), "rb") as requests, os.fdopen(os.dup(1), "wb") as replies:
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.dup2(2, 1)
        metrics, samples = _Metrics(), Samples()
        for line in requests:
            replies.write(_answer(metrics, samples, line))
            replies.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
