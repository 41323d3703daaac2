"""Turn an error response of the API into an exception of the product's error tree."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from vlmhyperbench.errors import Conflict, Denied, InvalidInput, NotFound, Unavailable, VlmHyperBenchError
from vlmhyperbench.registry.errors import field_of
from vlmhyperbench.registry.validation import problems_of
from vlmhyperbench.wire.problems import Problem, ProblemItem

Body = TypeVar("Body", bound=BaseModel)

_CLASS_OF: dict[int, type[VlmHyperBenchError]] = {
    401: Denied,
    403: Denied,
    404: NotFound,
    409: Conflict,
    412: Conflict,
    413: InvalidInput,
    429: Unavailable,
    502: Unavailable,
    503: Unavailable,
    504: Unavailable,
}


class RefusedInput(InvalidInput):
    """The API rejected the input; `errors` lists each problem, with field, file and line where known."""

    def __init__(self, message: str, *, cure: str, code: str, errors: list[ProblemItem]) -> None:
        super().__init__(message, cure=cure, code=code)
        self.errors = errors


def checked(model: type[Body], values: Mapping[str, Any]) -> Body:
    """Validate a request body before it is sent.

    Raises:
        RefusedInput: a value is not valid; lists every error with its field.
    """
    try:
        return model.model_validate(dict(values))
    except ValidationError as error:
        problems = problems_of(model, dict(values), error.errors(include_url=False))
        items = [
            ProblemItem(message=problem.message, field=field_of(problem.path) or None, cure=problem.cure)
            for problem in problems
        ]
        message = "; ".join(f"{item.field}: {item.message}" if item.field else item.message for item in items)
        raise RefusedInput(message, cure=items[0].cure, code="invalid_input", errors=items) from error


def refusal_of(status: int, body: bytes) -> VlmHyperBenchError:
    """Parse problem+json; a response in another form (such as a proxy's page) is described by its status."""
    try:
        problem = Problem.model_validate_json(body)
    except ValidationError:
        cls = _CLASS_OF.get(status, VlmHyperBenchError)
        message = f"The server answered with HTTP {status} and no error of the API."
        return cls(message, cure="Check that VLMHB_API_URL is the address of the API.")
    if status in {400, 422}:
        return RefusedInput(problem.message, cure=problem.cure, code=problem.code, errors=problem.errors)
    return _CLASS_OF.get(status, VlmHyperBenchError)(problem.message, cure=problem.cure, code=problem.code)
