"""`workers`: what a person does with the workers of a stack and their devices."""

from __future__ import annotations

from cyclopts import App

from vlmhyperbench.cli import exits
from vlmhyperbench.cli.output import emit, say
from vlmhyperbench.cli.output_flags import TEXT, OutputFlags
from vlmhyperbench.client import Client

app = App(name="workers", help="Release a device of a worker from quarantine.")


@app.command
def release_device(uuid: str, /, *, output: OutputFlags = TEXT) -> int:
    """Let a device that is in quarantine get jobs again, once it has been repaired, reset or found healthy.

    A worker quarantines a GPU that vanishes or reports an error of the hardware; `vlmhyperbench status` shows why.

    Args:
        uuid: UUID of the device.
        output: How the output is printed.
    """
    with Client() as client:
        released = client.release_device(uuid)
    if output.json:
        emit("device", released)
    else:
        say(f"{uuid} gets jobs again." if released.was_broken else f"{uuid} was not in quarantine.")
    return exits.OK
