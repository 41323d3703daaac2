"""Settings of all services, read once at start-up: environment, mounted files, the embedded stack's file, defaults."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated, Final, Literal, Self

from pydantic import (
    AfterValidator,
    AliasChoices,
    BeforeValidator,
    Field,
    SecretStr,
    ValidationError,
    model_validator,
)
from pydantic.fields import FieldInfo
from pydantic_settings import (
    BaseSettings,
    NoDecode,
    PydanticBaseSettingsSource,
    SecretsSettingsSource,
    SettingsConfigDict,
    SettingsError,
)

from vlmhyperbench.addresses import S3Access, postgres_url, redis_url, storage_folder
from vlmhyperbench.domain.base import Refused
from vlmhyperbench.domain.ground import parse_cores
from vlmhyperbench.domain.tiers import TierPolicy
from vlmhyperbench.domain.timers import Timers
from vlmhyperbench.errors import InvalidInput, pydantic_message
from vlmhyperbench.files import write_whole
from vlmhyperbench_sdk.gateway import FIRST_PARTY_ADAPTERS, EngineEnvironment
from vlmhyperbench_sdk.net import UrlPolicy
from vlmhyperbench_sdk.types import JsonValue

SETTINGS_DIR: Final = "VLMHB_SETTINGS_DIR"
"""Variable that names a folder whose files are settings."""
_URLS: Final[Mapping[str, Callable[[str, Path | None], str]]] = {
    "database_url": postgres_url,
    "database_replica_url": postgres_url,
    "redis_url": redis_url,
    "worker_database_url": partial(postgres_url, is_ours=False),
    "worker_redis_url": partial(redis_url, is_ours=False),
}
"""Setting → function that checks and completes it."""


def default_home() -> Path:
    """Return the product's XDG data folder."""
    data = os.environ.get("XDG_DATA_HOME", "")
    return (Path(data) if data.startswith("/") else Path.home() / ".local" / "share") / "vlmhyperbench"


def _cores(given: object) -> object:
    return parse_cores(given) if isinstance(given, str) else given


def _words(given: object) -> object:
    return tuple(part.strip() for part in given.split(",") if part.strip()) if isinstance(given, str) else given


def _groups(given: object) -> object:
    return tuple(_words(group) for group in given.split(";") if group.strip()) if isinstance(given, str) else given


_Words = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_words)]
_Gangs = Annotated[tuple[tuple[str, ...], ...], NoDecode, BeforeValidator(_groups)]


class Settings(BaseSettings):
    """Settings of one process, from variables `VLMHB_<NAME>`; nested ones as `VLMHB_TIMERS__LEASE_S`.

    A file `vlmhb_<name>` in the folder `VLMHB_SETTINGS_DIR` stands in for a variable.
    """

    model_config = SettingsConfigDict(
        env_prefix="VLMHB_",
        env_nested_delimiter="__",
        env_ignore_empty=True,
        frozen=True,
        extra="forbid",
        validate_default=True,
        populate_by_name=True,
    )

    home: Annotated[Path, AfterValidator(Path.absolute)] = Field(default_factory=default_home)
    """Folder of all data that the product stores on this machine."""
    run_mode: Literal["prod", "dev"] = Field(
        default="prod", validation_alias=AliasChoices("VLMHB_RUN_MODE", "RUN_MODE", "run_mode")
    )
    """`dev` applies the registry's overlays."""
    database_url: SecretStr = SecretStr("")
    """`postgresql+psycopg://…`; empty if no stack is known."""
    database_replica_url: SecretStr = SecretStr("")
    """URL of a streaming replica of that database, from which the API reads lists; empty: there is none."""
    database_replica_wait_s: float = Field(default=0.1, ge=0, le=5)
    """How long a list waits for the replica to catch up before it is read from the database itself."""
    redis_url: SecretStr = SecretStr("")
    """`redis://…`, or `rediss://…` with TLS."""
    worker_database_url: SecretStr = SecretStr("")
    """URL by which workers of other machines reach the database; empty: that of `database_url`. An account in it is
    made, with fewer rights, for workers that share one."""
    worker_redis_url: SecretStr = SecretStr("")
    """URL by which workers of other machines reach Redis; empty: that of `redis_url`."""
    worker_accounts: Literal["own", "shared"] = "own"
    """Whether the workers that join by a token get accounts of their own in Postgres and Redis, which end when the
    token is revoked, or share the accounts of the two URLs above."""
    tls_ca_file: Path | None = None
    """Certificate authority of Postgres (with `sslmode=verify-full`) and Redis (with `rediss://`), in PEM; None: those
    of the system."""
    server_url: str = ""
    """API of the stack that this machine's workers have joined; empty if they have not joined one."""
    storage_url: str = Field(default_factory=lambda data: str(data["home"] / "storage"))
    """A folder, as a path or a `file://` URL, or a prefix in a bucket of S3, `s3://BUCKET/PREFIX`."""
    storage_s3: S3Access = S3Access()
    """How the S3 server of the storage is reached."""
    storage_cache_dir: Path = Field(default_factory=lambda data: data["home"] / "storage-cache")
    """Folder of the local copies of files in S3, which all processes of a machine share."""
    storage_cache_max_bytes: int = Field(default=20 * 1024**3, ge=0)
    """Bound of that folder; the least recently used copies are removed for new ones, but none that is read."""
    registries: Path | None = None
    """Folder of registry files; None: those shipped with the product."""
    models_dir: Path = Field(default_factory=lambda data: data["home"] / "models")
    """Folder of the models that were fetched or made; workers of one machine may share it."""
    models_max_bytes: int = Field(default=200 * 1024**3, ge=0)
    """Bound of that folder; the least recently used models are removed for new ones, but none that is in use."""
    offline: bool = False
    """Whether no weights may be fetched, from a hub or from S3; `HF_HUB_OFFLINE` says the same of hubs."""
    fetch_images: bool = False
    """Whether images that a dataset names by URL are fetched, from hosts that may be measured, into `home/images`."""
    images_max_bytes: int = Field(default=20 * 1024**3, ge=0)
    """Bound of that folder; the least recently used images are removed for new ones."""
    unpacked_max_bytes: int = Field(default=200 * 1024**3, ge=0)
    """Bound of `home/unpacked`, the content of archives; the same holds of it, but none that is in use is removed."""
    secrets_dir: Path = Field(default_factory=lambda data: data["home"] / "secrets")
    """Folder of secrets: one 0600 file per secret, named after it."""
    api_host: str = "127.0.0.1"
    api_port: int = Field(default=8760, ge=0, le=65535)
    api_tls_cert: Path | None = None
    """Certificate of the API, with those between it and its authority, in PEM; None: the API speaks plain HTTP."""
    api_tls_key: Path | None = None
    """Private key of that certificate."""
    project: str = Field(default="default", min_length=1, max_length=100)
    key_pepper: SecretStr = SecretStr("")
    """Key of the HMAC under which API keys are stored."""
    allow_loopback_targets: bool = False
    """Whether endpoints on this machine may be measured; the embedded stack sets it."""
    allowed_target_hosts: frozenset[str] = frozenset()
    """Private hosts that may be measured; public addresses are always allowed."""
    allowed_adapters: frozenset[str] = frozenset()
    """Distributions whose adapters may be imported besides the product's own; for API and inference workers alike."""
    metric_memory_bytes: int = Field(default=8 * 1024**3, ge=64 * 1024**2)
    """Memory that each process of a metric in an environment of its own may allocate."""
    worker_name: str = Field(
        default_factory=socket.gethostname, max_length=200, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$"
    )
    inference_cores: Annotated[frozenset[int], NoDecode, BeforeValidator(_cores)] = frozenset()
    """Cores of an inference worker, its engine and its load generator, in the kernel's list format (`0-3,8`); empty:
    all. Two workers of one machine measure at the same time only if they share no cores and no devices."""
    devices: _Words = ()
    """Devices of an inference worker, by UUID: all that it and its engines see. Empty: all of the machine."""
    gangs: _Gangs = ()
    """Groups of GPUs, by number or UUID, each of which has one inference worker (`0,1;2,3`); others have their own."""
    cpu_workers: int = Field(default=1, ge=1, le=1024)
    """Number of inference workers of a machine without GPUs, which divide its cores and its memory."""
    inventory: Path | None = None
    """File of declared devices, behind which no hardware stands; they take the place of the machine's devices."""
    inference_slots: int = Field(default=4, ge=1, le=64)
    """Jobs that an inference worker takes at a time if their speed does not count (`shares_device`) and they fit."""
    memory_margin: float = Field(default=1.2, ge=1, le=10)
    """Factor of an adapter's estimate of memory, for what it does not count; what was measured needs less."""
    metrics_port: int = Field(default=0, ge=0, le=65535)
    """Port of this process's own metrics and liveness (`/metrics`, `/healthz`); 0: none. The embedded stack counts up
    from it, one port for each of its services."""
    metrics_host: str = "127.0.0.1"
    """Address on which they are served, to everybody who reaches it; images say 0.0.0.0."""
    otlp_endpoint: str = Field(
        default="", validation_alias=AliasChoices("VLMHB_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT", "otlp_endpoint")
    )
    """URL of an OTLP receiver (HTTP, protobuf) to which the spans of runs are sent; empty: none are made."""
    until_idle_s: float | None = Field(default=None, gt=0)
    """Time without a job after which a worker ends by itself, with exit code 0; None: it runs until a signal."""
    tiers: TierPolicy = TierPolicy()
    """When finished runs move to cheaper tiers and are deleted."""
    timers: Timers = Timers()

    @model_validator(mode="after")
    def _complete_urls(self) -> Self:
        """Check the URLs, and add to each the authority that it trusts, so that connecting needs only the URL."""
        for name, completed in _URLS.items():
            url = getattr(self, name).get_secret_value()
            if url:  # the settings are frozen only once they are complete
                with _naming(name):
                    object.__setattr__(self, name, SecretStr(completed(url, self.tls_ca_file)))
        with _naming("storage_url"):
            storage_folder(self.storage_url)
        if (self.api_tls_cert is None) != (self.api_tls_key is None):
            raise Refused("VLMHB_API_TLS_CERT and VLMHB_API_TLS_KEY must both be set", cure="Set both, or neither.")
        return self

    @property
    def api_url(self) -> str:
        """Base URL of the API, without a path."""
        host = f"[{self.api_host}]" if ":" in self.api_host else self.api_host
        return f"{'https' if self.api_tls_cert else 'http'}://{host}:{self.api_port}"

    @property
    def engine_environment(self) -> EngineEnvironment:
        """The environment of engines, with the distributions whose adapters may be imported."""
        return EngineEnvironment(adapters=tuple(sorted(self.allowed_adapters.union(FIRST_PARTY_ADAPTERS))))

    @property
    def environments_dir(self) -> Path:
        """Folder of the environments of engines and metrics."""
        return self.home / "environments"

    @property
    def logs_dir(self) -> Path:
        """Folder of the logs of services, engines and installers."""
        return self.home / "logs"

    @property
    def certificates_dir(self) -> Path:
        """Folder of the certificates of backends on this machine."""
        return self.home / "certificates"

    @property
    def url_policy(self) -> UrlPolicy:
        """The policy for URLs of measured endpoints."""
        return UrlPolicy(allow_loopback=self.allow_loopback_targets, allow_hosts=self.allowed_target_hosts)

    @classmethod
    def load(cls) -> Settings:
        """Load the settings.

        Raises:
            InvalidInput: a setting is malformed, or the timers break an inequality; the message names each.
        """
        try:
            return cls()
        except OSError as error:  # a mounted file
            cure = f"Correct the permissions of the files in {os.environ.get(SETTINGS_DIR)}."
            message = f"The settings in {error.filename} cannot be read: {error.strerror}."
            raise InvalidInput(message, cure=cure) from error
        except SettingsError as error:  # a setting that must be JSON is not
            cure = "Write JSON, as docs/configuration.md shows, or unset it."
            raise InvalidInput(f"A setting is not valid: {error}.", cure=cure) from error
        except ValidationError as error:
            problems = "; ".join(
                f"{_variable(item['loc'])}: {pydantic_message(item)}"
                for item in error.errors(include_input=False, include_url=False)
                if item["type"] != "default_factory_not_called"  # its default needs an invalid setting
            )
            raise InvalidInput(f"These settings are not valid: {problems}.", cure="Correct or unset them.") from error

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - the library's signature
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - the library's signature
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return init_settings, env_settings, *_mounted(settings_cls), _StoredSource(settings_cls)


def _mounted(settings_cls: type[BaseSettings]) -> tuple[PydanticBaseSettingsSource, ...]:
    """Return the source of the files in `VLMHB_SETTINGS_DIR`: secrets as Docker and Kubernetes mount them, so that they
    are in no environment that is shown or inherited. A file is named after its variable, in upper or lower case.
    """
    folder = os.environ.get(SETTINGS_DIR)
    if not folder or not Path(folder).is_dir():
        return ()
    return (SecretsSettingsSource(settings_cls, secrets_dir=folder),)


def _variable(location: tuple[int | str, ...]) -> str:
    name = "__".join(str(part) for part in location).upper()
    return name if name.startswith("VLMHB_") else f"VLMHB_{name}"


@contextmanager
def _naming(setting: str) -> Iterator[None]:
    """Name the setting in an error of its URL."""
    try:
        yield
    except InvalidInput as error:
        message = f"{_variable((setting,))} is not valid: {error.message}"
        raise InvalidInput(message, cure=error.cure, code=error.code) from error


class _StoredSource(PydanticBaseSettingsSource):
    """Reads `<home>/run/settings.json`, which the embedded stack writes at start-up."""

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[object, str, bool]:  # noqa: ARG002 - as above
        return None, field_name, False

    def __call__(self) -> dict[str, object]:
        path = stored_path(Path(str(self.current_state.get("home") or default_home())))
        cure = "Remove it and start the stack again."
        try:
            stored = json.loads(path.read_text(encoding="utf-8"))
        except (FileNotFoundError, NotADirectoryError):
            return {}
        except (OSError, ValueError) as error:
            raise InvalidInput(f"{path} cannot be read: {error}.", cure=cure) from error
        if not isinstance(stored, dict):
            raise InvalidInput(f"{path} is not an object.", cure=cure)
        return stored


def store(home: Path, values: Mapping[str, JsonValue]) -> Path:
    """Write the embedded stack's settings (names as in `Settings`) atomically, readable by their owner only."""
    path = stored_path(home)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_whole(path, json.dumps(dict(values), indent=1, sort_keys=True).encode(), mode=0o600, is_durable=True)
    return path


def stored_path(home: Path) -> Path:
    """Return the path of the settings that a stack, or joining one, has stored in a home."""
    return home / "run" / "settings.json"
