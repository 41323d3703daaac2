"""`status` of a stack on another machine or in containers: what its API says of it."""

from __future__ import annotations

from dataclasses import asdict

from vlmhyperbench.cli import exits
from vlmhyperbench.cli.output import emit, note, say
from vlmhyperbench.cli.output_flags import OutputFlags
from vlmhyperbench.cli.platform import platform_lines, quarantined, say_workers
from vlmhyperbench.monitoring.numbers import read_text


def status_elsewhere(url: str, output: OutputFlags) -> int:
    """Print the numbers, workers, drains and failed checks of the stack whose API VLMHB_API_URL names.

    Raises:
        Unavailable: the API does not answer.
        Denied: it does not know the key, or does not let it read all of this.
    """
    from vlmhyperbench.client import Client

    with Client() as client:
        if not client.ready().checks.get("database", True):
            say(f"{url}: its database does not answer. Runs wait, and go on by themselves when it is back.")
            return exits.SETUP
        numbers = read_text(client.metrics())
        workers = [worker for worker in client.workers().items if worker.devices]
        drained = client.drains().items
        failed = [check for check in client.diagnosis().checks if not check.is_ok]
    problems = [*quarantined(workers), *(f"{check.name}: {check.detail} {check.cure}" for check in failed)]
    if output.json:
        shown = {
            "url": url,
            "is_up": True,
            "workers": [worker.model_dump(mode="json") for worker in workers],
            "drained": [drain.model_dump(mode="json") for drain in drained],
            "numbers": [asdict(number) for number in numbers],
        }
        emit("stack", shown, warnings=problems)
        return exits.OK
    say(f"{url}  (elsewhere: VLMHB_API_URL names it)")
    for line in platform_lines(numbers):
        say(line)
    say_workers(workers, drained)
    for problem in problems:
        note(f"warning: {problem}", output)
    return exits.OK
