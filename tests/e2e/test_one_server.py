"""Runs that measure one server follow one another, on however many machines there are workers."""

from __future__ import annotations

import itertools
from pathlib import Path

from tests.support.audit import audit
from tests.support.http_servers import Recorder, serving
from tests.support.stack import running_stack, until
from vlmhyperbench.registry.schemas import RunEntry

SAMPLES = 400


def test_two_machines_do_not_measure_one_server_at_once(registries: Path, tmp_path: Path) -> None:
    inventory = tmp_path / "two.yaml"
    # Each declared device counts as a machine of its own.
    inventory.write_text("machine: box\ndevices:\n  - {name: card, memory_gib: 80, count: 2}\n")
    with (
        serving(Recorder) as first,
        serving(Recorder) as second,
        running_stack(registries, VLMHB_INVENTORY=str(inventory)) as stack,
    ):
        until(lambda: sum(bool(w.devices) for w in stack.client.workers().items) == 2, "two workers", 90)
        runs = {
            (server, model): stack.client.runs.create(
                RunEntry.model_validate(
                    {
                        "target": {"endpoint": f"{server}/v1", "model_name": model},
                        "task": "synthetic-questions",
                        "dataset": {"name": "synthetic-questions", "limit": SAMPLES},
                        "reports": [],
                    }
                )
            ).id
            for server, model in ((first, "a"), (first, "b"), (second, "c"), (first, "d"))
        }
        sent = {}
        for (server, model), run_id in runs.items():
            assert stack.wait(run_id).state == "SUCCEEDED", stack.logs()
            [times] = stack.query(
                "SELECT c.sending_from_ns, c.sending_until_ns FROM claim c JOIN job j ON j.id = c.job_id "
                "WHERE c.run_id = %s AND j.kind = 'GENERATE'",
                run_id,
            )
            sent[server, model] = times
        of_first = sorted(times for (server, _), times in sent.items() if server == first)
        assert all(before[1] <= after[0] for before, after in itertools.pairwise(of_first)), of_first
        apart = sent[second, "c"]
        assert any(times[0] < apart[1] and apart[0] < times[1] for times in of_first), (of_first, apart)
        audit(stack)
