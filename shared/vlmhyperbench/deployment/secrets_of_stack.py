"""The secrets of a stack in containers: made once, kept in files that only their owner's folder opens.

Docker mounts the files as they are into containers whose users have other ids, so everyone may read the files
themselves; the folder around them, of mode 0700, keeps the other users of the machine away.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from pathlib import Path

from vlmhyperbench.errors import Conflict, Unavailable
from vlmhyperbench.files import write_whole

USER = "vlmhyperbench"
"""Name of the account in Postgres and of its database."""
WORKER = f"{USER}_worker"
"""Name of the account that the workers share, which may do less; the migrations make it."""


def prepare_secrets(folder: Path) -> list[str]:
    """Make the secrets that are missing, and return their names; what is there stays.

    Raises:
        Conflict: the folder is a link, or belongs to somebody else.
        Unavailable: the folder cannot be written.
    """
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        if folder.is_symlink():
            raise Conflict(f"{folder} is a link.", cure="Remove it: it is to be a folder of its own.", code="secrets")
        folder.chmod(0o700)
        (folder / "tls").mkdir(mode=0o755, exist_ok=True)
        made = [name for name, value in _secrets(folder).items() if _write_new(folder / name, value)]
    except OSError as error:
        raise Unavailable(
            f"The secrets cannot be written to {folder}: {error.strerror or error}.",
            cure="Correct the permissions of the folder, or run the command as its owner.",
            code="secrets_unwritable",
        ) from error
    return made


def _secrets(folder: Path) -> Mapping[str, str]:
    """Return every secret: passwords that are there are part of the files that are not."""
    password = _existing(folder / "postgres_password") or secrets.token_urlsafe(32)
    redis = _password_in(folder / "redis_url") or secrets.token_urlsafe(32)
    s3 = (_existing(folder / "s3_auth_key") or secrets.token_urlsafe(32)).removeprefix(f"{USER},")
    return {
        "postgres_password": password,
        "database_url": f"postgresql+psycopg://{USER}:{password}@postgres:5432/{USER}",
        "worker_database_url": f"postgresql+psycopg://{WORKER}:{secrets.token_urlsafe(32)}@postgres:5432/{USER}",
        "redis_url": f"redis://:{redis}@valkey:6379/0",
        "valkey_conf": (
            f'bind * -::*\nport 6379\nrequirepass {redis}\ndir /data\nappendonly yes\nsave ""\n'
            "maxmemory 256mb\nmaxmemory-policy noeviction\n"
        ),
        "key_pepper": secrets.token_urlsafe(32),
        "api_key": _api_key(),
        "metrics_key": _api_key(),
        "storage_s3": f'{{"access_key_id": "{USER}", "secret_access_key": "{s3}"}}',
        "s3_auth_key": f"{USER},{s3}",
        "grafana_password": secrets.token_urlsafe(16),
    }


def _api_key() -> str:
    return f"vlmhb{secrets.token_hex(4)}_{secrets.token_urlsafe(32)}"


def _existing(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8").strip() or None
    except FileNotFoundError:
        return None


def _password_in(path: Path) -> str | None:
    url = _existing(path)
    return url.partition("://:")[2].partition("@")[0] or None if url else None


def _write_new(path: Path, value: str) -> bool:
    if path.exists():
        return False
    write_whole(path, f"{value.rstrip()}\n".encode(), mode=0o400, is_durable=True)
    path.chmod(0o444)  # whatever the umask says
    return True
