"""`workers token`: make, list and revoke the tokens by which workers of other machines join."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Final

from cyclopts import App, Parameter

from vlmhyperbench.cli import exits
from vlmhyperbench.cli.groups import STACK
from vlmhyperbench.cli.output import emit, note, say, table
from vlmhyperbench.cli.output_flags import TEXT, OutputFlags
from vlmhyperbench.domain.api_keys import prefix_of
from vlmhyperbench.domain.steps import WorkerKind
from vlmhyperbench.errors import InvalidInput
from vlmhyperbench.files import replacing
from vlmhyperbench.wire.joining import MAX_LIFE_S, JoinToken, JoinTokenCreated

app = App(name="token", help="Make, list and revoke join tokens.")

_NEW_FILE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL
_UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_ENDED: Final[Mapping[str | None, str]] = {
    None: "No worker has joined with it.",
    "ended": "The accounts of its workers are removed, and their connections closed.",
    "own": "A server did not answer: the accounts of its workers end as soon as it does.",
    "shared": "Its workers share an account with others (VLMHB_WORKER_ACCOUNTS=shared), so they go on: stop them.",
}


@app.command
def create(
    *,
    kind: Annotated[WorkerKind | None, Parameter(group=STACK)] = None,
    expires_in: Annotated[str, Parameter(group=STACK)] = "1h",
    uses: Annotated[int, Parameter(group=STACK)] = 1,
    out: Annotated[Path | None, Parameter(group=STACK)] = None,
    output: OutputFlags = TEXT,
) -> int:
    """Make a join token, which is shown only now.

    Args:
        kind: Only workers of this kind may join with it; by default any.
        expires_in: How long it is valid: a number with s, m, h or d, at most 30d.
        uses: How many workers may join with it.
        out: Write the token to this file, readable by its owner only, instead of printing it.
        output: How the output is printed.
    """
    from vlmhyperbench.client import Client

    life_s = _seconds(expires_in)

    def make() -> JoinTokenCreated:
        with Client() as client:
            return client.create_join_token(kind=kind, expires_in_s=life_s, max_uses=uses)

    made = make() if out is None else _written(make, out)
    if output.json:
        emit("join_token", made.model_dump(mode="json", exclude={"token"} if out is not None else None))
        return exits.OK
    note(f"The token {made.prefix} is valid until {made.expires_at:%Y-%m-%d %H:%M} UTC, for {uses} worker(s).", output)
    say(f"The token is in {out}." if out is not None else made.token)
    return exits.OK


@app.command(name="ls")
def list_(*, output: OutputFlags = TEXT) -> int:
    """List the join tokens, newest first: who made them, and what they still permit.

    Args:
        output: How the output is printed.
    """
    from vlmhyperbench.client import Client

    with Client() as client:
        tokens = client.join_tokens().items
    if output.json:
        emit("join_tokens", [item.model_dump(mode="json") for item in tokens])
        return exits.OK
    if not tokens:
        say("There are no join tokens. Make one with `vlmhyperbench workers token create`.")
        return exits.OK
    table(["token", "state", "kind", "uses", "expires", "made by"], [_row(item) for item in tokens])
    return exits.OK


@app.command
def revoke(prefix: str, /, *, output: OutputFlags = TEXT) -> int:
    """Revoke a join token: no worker joins with it any more, and the access of those that have joined ends.

    Args:
        prefix: Its public part, as `workers token ls` shows it.
        output: How the output is printed.
    """
    from vlmhyperbench.client import Client

    with Client() as client:
        # Who gives a whole token means it too; its secret is not sent.
        revoked = client.revoke_join_token(prefix_of(prefix) or prefix)
    if output.json:
        emit("join_token", revoked.model_dump(mode="json"))
    else:
        say(f"The token {revoked.prefix} is revoked. {_ENDED[revoked.account]}")
    return exits.OK


def _written(make: Callable[[], JoinTokenCreated], out: Path) -> JoinTokenCreated:
    """Make a token once its file can be written: nobody could show it again."""
    with replacing(out) as temporary, os.fdopen(os.open(temporary, _NEW_FILE, 0o600), "wb") as file:
        made = make()
        file.write(f"{made.token}\n".encode())
    return made


def _row(item: JoinToken) -> tuple[str, ...]:
    expires = f"{item.expires_at:%Y-%m-%d %H:%M} UTC"
    return item.prefix, item.state, item.kind or "any", f"{item.uses} of {item.max_uses}", expires, item.created_by


def _seconds(text: str) -> int:
    match = re.fullmatch(r"([0-9]{1,7})([smhd])", text.strip())
    if match is None:
        cure = "Write a number with a unit: 30m, 12h, 7d."
        raise InvalidInput(f"--expires-in {text!r} is no duration.", cure=cure, code="usage")
    seconds = int(match[1]) * _UNITS_S[match[2]]
    if not 1 <= seconds <= MAX_LIFE_S:
        cure = f"Write at least 1s and at most {MAX_LIFE_S // 86400}d."
        raise InvalidInput(f"--expires-in {text!r} is out of range.", cure=cure, code="usage")
    return seconds
