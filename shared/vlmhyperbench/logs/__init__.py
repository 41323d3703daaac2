"""Configure logging: one line per event on stderr, as JSON or readable text, with secrets masked everywhere.

stdout is reserved for data. Log records of third-party libraries pass through the same masking.
"""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, MutableMapping
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Literal, cast
from uuid import UUID

from vlmhyperbench.logs.masking import SecretMasker, StreamMasker
from vlmhyperbench_sdk.gateway import SECRET_MASK

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger, Processor, WrappedLogger

__all__ = [
    "SecretMasker",
    "StreamMasker",
    "bind",
    "configure_logging",
    "copying_lines",
    "get_logger",
    "hide",
    "process_masker",
    "unhide",
]

Form = Literal["json", "console", "auto"]

process_masker = SecretMasker()
"""The secrets that are masked in every log line of this process."""

_SECRET_KEY = re.compile(r"(password|passwd|secret|api_?key|authorization|token)$", re.IGNORECASE)


def configure_logging(service: str, *, level: str = "INFO", form: Form = "auto") -> None:
    """Log to stderr from now on; the form `auto` is readable text on a terminal and JSON elsewhere.

    `VLMHB_LOG_LEVEL` and `VLMHB_LOG_FORM` override the arguments.
    """
    import structlog  # imported late: it takes 0.3 s, which callers that only mask secrets avoid

    level = os.environ.get("VLMHB_LOG_LEVEL", level).upper()
    form = cast("Form", os.environ.get("VLMHB_LOG_FORM", form))
    is_json = form == "json" or (form == "auto" and not sys.stderr.isatty())
    shared = _processors(service)
    renderer: Processor = (
        structlog.processors.JSONRenderer(default=str)
        if is_json
        else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty() and "NO_COLOR" not in os.environ)
    )
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level)
    logging.getLogger("httpx2").setLevel(logging.WARNING)  # it logs every request at INFO
    sys.excepthook = _log_uncaught


@contextmanager
def copying_lines(service: str, *, job: UUID, write: Callable[[str], None]) -> Iterator[None]:
    """Give `write` every line that this process logs for a job, as JSON with secrets masked, until the block ends.

    Lines belong to the job of the task that logs them, which `bind` has named.
    """
    import structlog  # see configure_logging

    handler = _JobHandler(job, write)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=_processors(service),
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.JSONRenderer(default=str),
            ],
        )
    )
    logging.getLogger().addHandler(handler)
    try:
        yield
    finally:
        logging.getLogger().removeHandler(handler)


class _JobHandler(logging.Handler):
    """Formats the lines of one job and passes them on."""

    def __init__(self, job: UUID, write: Callable[[str], None]) -> None:
        super().__init__()
        self._job = str(job)
        self._write = write

    def emit(self, record: logging.LogRecord) -> None:
        from structlog.contextvars import get_contextvars

        if get_contextvars().get("job_id") != self._job:
            return
        try:
            self._write(self.format(record) + "\n")
        except (OSError, ValueError):  # the disk is full, or a thread logs while the file is closed
            self.handleError(record)


def get_logger(name: str) -> FilteringBoundLogger:
    """Return a module's logger: `get_logger(__name__)`."""
    import structlog  # see configure_logging

    return cast("FilteringBoundLogger", structlog.get_logger(name))


def bind(*, run: UUID | None, experiment: UUID | None, job: UUID, trace_id: str) -> None:
    """Name the job, its run or experiment and its trace in every line of this task, and of the tasks that it starts."""
    import structlog  # see configure_logging

    names = {"run_id": run, "experiment_id": experiment, "job_id": job}
    known = {name: str(value) for name, value in names.items() if value is not None}
    structlog.contextvars.bind_contextvars(**known, trace_id=trace_id)


def hide(secrets: Iterable[str]) -> None:
    """Mask these values in every log line of this process from now on."""
    process_masker.add(secrets)


def unhide(secrets: Iterable[str]) -> None:
    """Undo one `hide` of these values."""
    process_masker.forget(secrets)


def _processors(service: str) -> list[Processor]:
    import structlog  # see configure_logging

    return [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="ts"),
        _name_service(service),
        structlog.stdlib.PositionalArgumentsFormatter(),
        structlog.processors.format_exc_info,
        _mask,
    ]


def _name_service(service: str) -> Processor:
    def add(_logger: WrappedLogger, _method: str, event: MutableMapping[str, object]) -> MutableMapping[str, object]:
        event["service"] = service
        return event

    return add


def _mask(_logger: WrappedLogger, _method: str, event: MutableMapping[str, object]) -> MutableMapping[str, object]:
    for key, value in event.items():
        if key.startswith("_"):
            continue
        event[key] = SECRET_MASK if value and _SECRET_KEY.search(key) else process_masker.mask_value(value)
    return event


def _log_uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if issubclass(kind, KeyboardInterrupt):
        sys.__excepthook__(kind, error, trace)
        return
    get_logger("uncaught").critical("uncaught exception", exc_info=(kind, error, trace))
