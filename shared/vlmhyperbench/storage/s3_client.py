"""A client of S3: how often a request is repeated, and what an answer that is no success means."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from enum import Enum
from typing import Any, Final

from vlmhyperbench.extras import needed_for

TRIES: Final = 10
"""Times that a request is sent until it fails; the pauses between them double, at random, up to 20 s each."""
_ARGUMENTS: Final = {
    "endpoint_url": "endpoint_url",
    "region": "region_name",
    "access_key_id": "aws_access_key_id",
    "secret_access_key": "aws_secret_access_key",
    "session_token": "aws_session_token",
    "ca_file": "verify",
}
"""Name of a setting → argument of boto3's client."""


class Failure(Enum):
    """What a failed request means for its caller."""

    MISSING = "missing"
    NO_BUCKET = "no bucket"
    DENIED = "denied"
    CLOCK = "clock"
    """The signature is too old or too new: the clocks of client and server differ by more than 15 minutes."""
    CHANGED = "changed"
    AWAY = "away"
    """The server does not answer, or answers that it cannot now; repeating may help."""
    WRONG = "wrong"
    """The request cannot be made: the endpoint is no URL, the region is unknown, the answer is not S3's."""


_CODES: Final = {
    "NoSuchBucket": Failure.NO_BUCKET,
    "InvalidBucketName": Failure.NO_BUCKET,
    "RequestTimeTooSkewed": Failure.CLOCK,
    "RequestExpired": Failure.CLOCK,
    "PreconditionFailed": Failure.CHANGED,
}
_STATUSES: Final = {
    301: Failure.WRONG,
    400: Failure.WRONG,
    401: Failure.DENIED,
    403: Failure.DENIED,
    404: Failure.MISSING,
    405: Failure.WRONG,
    412: Failure.CHANGED,
}


def connect(access: Mapping[str, str], *, tries: int = TRIES) -> Any:
    """Return a client of boto3; nothing is sent yet.

    Args:
        access: Set fields of `S3Access`, or arguments of boto3's client.
        tries: Times that a request is sent until it fails.

    Raises:
        Unavailable: boto3 is not installed.
        ValueError: the endpoint is no URL.
    """
    with needed_for("S3", extra="s3"):
        import boto3
        import botocore.session
        from botocore.config import Config
    # Only what must have a checksum gets one: other servers than AWS's do not know the newer ones.
    config = Config(
        retries={"mode": "standard", "total_max_attempts": tries},
        connect_timeout=5,
        read_timeout=30,
        max_pool_connections=64,
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
        signature_version="s3v4",  # that of signed URLs would be an older one
    )
    options = {_ARGUMENTS.get(name, name): value for name, value in access.items()}
    session = botocore.session.get_session()
    session.get_component("response_parser_factory").set_parser_defaults(timestamp_parser=_instant)
    made = boto3.session.Session(botocore_session=session)
    client = made.client("s3", config=config, **{"region_name": None, **options})
    _repeat_without_quota(client, tries)
    return client


def _repeat_without_quota(client: Any, tries: int) -> None:
    """Let the number of tries alone decide whether a request is sent again.

    boto3 also keeps a quota for all requests of a client, and gives nothing back for a repeated one whose answer is
    404, as that to the question whether a file is there often is. After a hundred of those, nothing would be repeated.
    """
    from botocore.retries import standard

    handler = standard.RetryHandler(
        retry_policy=standard.RetryPolicy(
            retry_checker=standard.StandardRetryConditions(max_attempts=tries),
            retry_backoff=standard.ExponentialBackoff(),
        ),
        retry_event_adapter=standard.RetryEventAdapter(),
        retry_quota=_NoQuota(),
    )
    client.meta.events.unregister("needs-retry.s3", unique_id="retry-config-s3")
    client.meta.events.register("needs-retry.s3", handler.needs_retry, unique_id="retry-config-s3")


class _NoQuota:
    """In place of boto3's quota of retries."""

    def acquire_retry_quota(self, _context: object) -> bool:
        """Permit every retry."""
        return True


def _instant(value: Any) -> datetime:
    """Read a time of an answer; boto3's own reader of any form takes most of the time of a long listing."""
    from botocore.utils import parse_timestamp

    try:
        instant = datetime.fromisoformat(value)
    except (TypeError, ValueError):  # another form of those that AWS uses
        instant = parse_timestamp(value)
    return instant if instant.tzinfo is not None else instant.replace(tzinfo=UTC)


def failure_of(error: Exception) -> Failure | None:
    """Return what an error of boto3 means; None if it is no error of boto3."""
    from boto3 import exceptions as boto3_exceptions
    from botocore import exceptions
    from s3transfer.exceptions import RetriesExceededError

    if isinstance(error, exceptions.ClientError):
        code = str(error.response.get("Error", {}).get("Code", ""))
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode")
        return _CODES.get(code) or _STATUSES.get(status, Failure.AWAY)
    if isinstance(error, boto3_exceptions.S3UploadFailedError) and isinstance(error.__context__, Exception):
        return failure_of(error.__context__) or Failure.AWAY
    if isinstance(error, exceptions.NoCredentialsError | exceptions.PartialCredentialsError):
        return Failure.DENIED
    if isinstance(error, exceptions.SSLError):
        return Failure.WRONG
    away = (
        exceptions.HTTPClientError,
        exceptions.ConnectionError,
        exceptions.IncompleteReadError,
        exceptions.ChecksumError,
        RetriesExceededError,
    )
    if isinstance(error, away):
        return Failure.AWAY
    if isinstance(error, exceptions.BotoCoreError | boto3_exceptions.Boto3Error):
        return Failure.WRONG
    return None


def are_keys_refused(error: Exception) -> bool:
    """Return whether the keys themselves are refused: no such key, or another secret than that of the key."""
    return any(code in answer_of(error) for code in ("InvalidAccessKeyId", "SignatureDoesNotMatch"))


def answer_of(error: Exception) -> str:
    """Describe a failed request in a few words, which contain neither an endpoint nor a key."""
    from botocore import exceptions

    if isinstance(error, exceptions.ClientError):
        code = str(error.response.get("Error", {}).get("Code", ""))
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode")
        return f"HTTP {status}, {code}" if code != str(status) else f"HTTP {status}"
    if isinstance(error, exceptions.SSLError):
        return "its certificate is not trusted"
    if isinstance(error, exceptions.NoCredentialsError | exceptions.PartialCredentialsError):
        return "no keys are set"
    return "no answer" if failure_of(error) is Failure.AWAY else type(error).__name__
