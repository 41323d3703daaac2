"""Do the work of several items in threads, and yield the results in the order of the items."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


def ahead(pool: Executor, work: Callable[[T], R], items: Iterable[T], *, window: int) -> Iterator[R]:
    """Yield the results in order, with at most `window` items taken ahead, so that memory stays bounded.

    An error of an item is raised in its place, and one of the iteration after the results before it.
    """
    pending: deque[Future[R]] = deque()
    try:
        for item in items:
            pending.append(pool.submit(work, item))
            if len(pending) >= window:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    finally:
        for future in pending:
            future.cancel()
