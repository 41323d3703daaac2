"""Turn an answer that refuses into an exception of the product's own tree."""

from __future__ import annotations

from pydantic import ValidationError

from vlmhyperbench.errors import Conflict, Denied, InvalidInput, NotFound, Unavailable, VlmHyperBenchError
from vlmhyperbench.wire.problems import Problem, ProblemItem

_CLASS_OF: dict[int, type[VlmHyperBenchError]] = {
    401: Denied,
    403: Denied,
    404: NotFound,
    409: Conflict,
    413: InvalidInput,
    502: Unavailable,
    503: Unavailable,
    504: Unavailable,
}


class RefusedInput(InvalidInput):
    """The API found the input wrong; `errors` lists each thing, with field, file and line where they are known."""

    def __init__(self, message: str, *, cure: str, code: str, errors: list[ProblemItem]) -> None:
        super().__init__(message, cure=cure, code=code)
        self.errors = errors


def refusal_of(status: int, body: bytes) -> VlmHyperBenchError:
    """Read problem+json; an answer that is none (a proxy's page) is described by its status."""
    try:
        problem = Problem.model_validate_json(body)
    except ValidationError:
        cls = _CLASS_OF.get(status, VlmHyperBenchError)
        return cls(f"The API answered {status} without saying why.", cure="Check the address.")
    if status in {400, 422}:
        return RefusedInput(problem.message, cure=problem.cure, code=problem.code, errors=problem.errors)
    return _CLASS_OF.get(status, VlmHyperBenchError)(problem.message, cure=problem.cure, code=problem.code)
