"""The last lines that this process has logged about one run, for people who watch it; masked as those on stderr are."""

from __future__ import annotations

import logging
from collections import deque
from types import TracebackType
from typing import Self
from uuid import UUID

MAX_LINES = 200


class RecentLines(logging.Handler):
    """Keeps lines that name the run, from the beginning of its `with` block to the end."""

    def __init__(self, run_id: UUID) -> None:
        super().__init__()
        self._run_id = str(run_id)
        self._lines: deque[str] = deque(maxlen=MAX_LINES)

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a line if the task that logs it works for the run."""
        import structlog  # see `configure_logging`

        if structlog.contextvars.get_contextvars().get("run_id") == self._run_id:
            self._lines.append(self.format(record))

    def take(self) -> list[str]:
        """Return the lines since the last call, at most the last `MAX_LINES`."""
        lines = list(self._lines)
        self._lines.clear()
        return lines

    def __enter__(self) -> Self:
        root = logging.getLogger()
        if root.handlers:
            self.setFormatter(root.handlers[0].formatter)
        root.addHandler(self)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        logging.getLogger().removeHandler(self)
