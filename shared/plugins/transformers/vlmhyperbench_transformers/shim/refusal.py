"""The one error of the server: a request that is answered with an HTTP status and OpenAI's error object."""

from __future__ import annotations


class Refusal(Exception):
    """A request that is not answered; `code` is stable."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message

    def body(self) -> dict[str, object]:
        """Return the error as OpenAI's API has it."""
        kind = "invalid_request_error" if self.status == 400 else self.code
        return {"error": {"message": self.message, "type": kind, "param": None, "code": self.code}}


def invalid(message: str, code: str = "invalid_input") -> Refusal:
    """Return the refusal of a request that is wrong."""
    return Refusal(400, code, message)


def out_of_memory(detail: str) -> Refusal:
    """Return the refusal of a request for which the memory is too small; a smaller one may fit."""
    return Refusal(507, "oom", f"The engine ran out of memory: {detail.strip().splitlines()[0][:300]}")


def says_out_of_memory(error: BaseException) -> bool:
    """Return whether an error is torch's, or Python's, for memory that ran out on a device or the host."""
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    text = str(error).lower()
    return isinstance(error, RuntimeError) and ("out of memory" in text or "can't allocate memory" in text)
