"""Break what must never break, one place at a time, and see that a test notices: `make mutants`.

Each mutant is one change to a copy of the library, and the tests that must fail on it. They are about the fence, the
compare-and-set of every assignment, needs, reservations and counting: code whose absence no run shows until two
workers, or a dead one, meet. It takes some minutes, so it is no part of `make ci`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "shared" / "vlmhyperbench"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """One change, wherever its file holds the text, and the tests that must fail on it."""

    name: str
    file: str
    text: str
    replacement: str
    tests: tuple[str, ...]


FENCE = "tests/shared/worker/test_fence.py"
CLAIMS = "tests/shared/db/test_claims.py"
SCHEDULING = "tests/shared/db/test_scheduling.py"
APPENDING = "tests/shared/db/test_appending.py"
DEVICES = "tests/shared/db/test_devices.py"
EFFECTS = "tests/scheduler/test_effects.py"
PLACEMENT_ROWS = "tests/shared/db/test_placement_rows.py"
PLACEMENT = "tests/shared/domain/test_placement.py"
FAIRNESS = "tests/shared/domain/test_fairness.py"
ADVANCING = "tests/shared/domain/test_scheduling.py"

MUTANTS = (
    Mutant(
        name="fence: rows are appended under any claim",
        file="db/appending.py",
        text="                _JOB.c.claim_id == claim_id,\n",
        replacement="",
        tests=(APPENDING,),
    ),
    Mutant(
        name="fence: whatever a claim writes in a transaction is written under any claim",
        file="db/claims.py",
        text='_HOLD = "SELECT id FROM job WHERE id = :job AND claim_id = :claim AND',
        replacement='_HOLD = "SELECT id FROM job WHERE id = :job AND CAST(:claim AS uuid) IS NOT NULL AND',
        tests=(FENCE,),
    ),
    Mutant(
        name="fence: a lost claim renews the lease of its successor",
        file="db/claims.py",
        text="WHERE j.id = :job AND j.claim_id = :claim AND j.state = 'RUNNING'",
        replacement="WHERE j.id = :job AND CAST(:claim AS uuid) IS NOT NULL AND j.state = 'RUNNING'",
        tests=(CLAIMS, FENCE),
    ),
    Mutant(
        name="fence: a lost claim ends the job of its successor",
        file="db/finishing.py",
        text='_LOCK = "SELECT * FROM job WHERE id = :job AND claim_id = :claim AND',
        replacement='_LOCK = "SELECT * FROM job WHERE id = :job AND CAST(:claim AS uuid) IS NOT NULL AND',
        tests=(CLAIMS, FENCE),
    ),
    Mutant(
        name="compare-and-set: a job is assigned twice",
        file="db/scheduling.py",
        text="WHERE id = :job AND state = 'READY' RETURNING",
        replacement="WHERE id = :job RETURNING",
        tests=(SCHEDULING,),
    ),
    Mutant(
        name="compare-and-set: a job that was claimed meanwhile is taken back",
        file="db/scheduling.py",
        text="WHERE id = :job AND state = 'ASSIGNED' AND attempt_id = :attempt RETURNING",
        replacement="WHERE id = :job AND attempt_id = :attempt RETURNING",
        tests=(SCHEDULING,),
    ),
    Mutant(
        name="compare-and-set: a stale attempt is claimed",
        file="db/claims.py",
        text="WHERE id = :job AND attempt_id = :attempt AND worker_id = :worker",
        replacement="WHERE id = :job AND CAST(:attempt AS uuid) IS NOT NULL AND worker_id = :worker",
        tests=(CLAIMS, "tests/shared/db/test_job_machine.py"),
    ),
    Mutant(
        name="needs: a job starts before the jobs that it needs have ended",
        file="db/scheduling.py",
        text="                ELSE true END))",
        replacement="                ELSE false END))",
        tests=(SCHEDULING,),
    ),
    Mutant(
        name="needs: what reads a phase starts before it is closed",
        file="db/scheduling.py",
        text="(j.kind = ANY(CAST(:early AS text[])) OR NOT r.is_dirty)",
        replacement="(j.kind = ANY(CAST(:early AS text[])) OR true)",
        tests=(SCHEDULING,),
    ),
    Mutant(
        name="reservations: a device in quarantine is reserved",
        file="db/scheduling.py",
        text="AND d.no = :device AND d.state = 'OK'",
        replacement="AND d.no = :device",
        tests=(DEVICES,),
    ),
    Mutant(
        name="reservations: a job that waits for a device in quarantine is claimed",
        file="db/claims.py",
        text="WHERE r.attempt_id = j.attempt_id AND d.state <> 'OK')",
        replacement="WHERE r.attempt_id = j.attempt_id AND false)",
        tests=(DEVICES,),
    ),
    Mutant(
        name="quarantine: the next worker of a device in quarantine gets jobs",
        file="db/workers.py",
        text="  AND earlier.state = 'BROKEN'",
        replacement="  AND earlier.state = 'NONE'",
        tests=(DEVICES,),
    ),
    Mutant(
        name="budget: the failure of a device is charged to its job",
        file="db/finishing.py",
        text="if not outcome.is_charged:",
        replacement="if False:",
        tests=(DEVICES,),
    ),
    Mutant(
        name="reservations: a device that somebody has alone is given to another",
        file="db/scheduling.py",
        text="                    AND (r.is_exclusive OR :exclusive))",
        replacement="                    AND r.is_exclusive AND NOT :exclusive)",
        tests=(SCHEDULING,),
    ),
    Mutant(
        name="reservations: a job that must be alone joins others",
        file="db/scheduling.py",
        text="                    AND (r.is_exclusive OR :exclusive))",
        replacement="                    AND (r.is_exclusive OR (:exclusive AND false)))",
        tests=(PLACEMENT_ROWS,),
    ),
    Mutant(
        name="reservations: the bytes of others on a device are not counted",
        file="db/scheduling.py",
        text="d.memory_bytes >= :bytes + (SELECT COALESCE(sum(r.bytes), 0)",
        replacement="d.memory_bytes >= :bytes + (SELECT 0 * COALESCE(sum(r.bytes), 0)",
        tests=(PLACEMENT_ROWS,),
    ),
    Mutant(
        name="reservations: two schedulers reserve a device without waiting for each other",
        file="db/scheduling.py",
        text="WHERE worker_id = :worker AND no = :device FOR NO KEY UPDATE",
        replacement="WHERE worker_id = :worker AND no = :device",
        tests=(PLACEMENT_ROWS,),
    ),
    Mutant(
        name="reservations: assignments that are written together wait for a locked run",
        file="db/owners.py",
        text='f"{wanted} FOR NO KEY UPDATE SKIP LOCKED"',
        replacement='f"{wanted} FOR NO KEY UPDATE"',
        tests=(EFFECTS,),
    ),
    Mutant(
        name="reservations: a gang keeps the devices that it got",
        file="db/scheduling.py",
        text='            raise Conflict(f"The device {reservation.device}',
        replacement='            return None\n            raise Conflict(f"The device {reservation.device}',
        tests=(PLACEMENT_ROWS,),
    ),
    Mutant(
        name="reservations: a job is placed where its bytes do not fit",
        file="domain/placement.py",
        text="    if taken > device.memory_bytes - device.reserved_bytes:",
        replacement="    if taken > device.memory_bytes:",
        tests=(PLACEMENT,),
    ),
    Mutant(
        name="reservations: a timed job is placed beside others",
        file="domain/placement.py",
        text="    if device.is_exclusive or (is_alone and device.jobs):",
        replacement="    if device.is_exclusive:",
        tests=(PLACEMENT,),
    ),
    Mutant(
        name="reservations: an engine that needs hardware is placed on a declared device",
        file="domain/placement.py",
        text="    if device.is_declared and device.is_accelerator and not need.is_simulated:",
        replacement="    if device.is_declared and False:",
        tests=(PLACEMENT,),
    ),
    Mutant(
        name="reservations: a drained worker gets jobs",
        file="domain/placement.py",
        text="    if worker.busy >= worker.slots or worker.drained is not None:",
        replacement="    if worker.busy >= worker.slots:",
        tests=(PLACEMENT,),
    ),
    Mutant(
        name="reservations: a broken device gets jobs",
        file="domain/placement.py",
        text="        return self.drained is None and not self.is_broken",
        replacement="        return self.drained is None",
        tests=(PLACEMENT,),
    ),
    Mutant(
        name="reservations: what has waited long holds nothing, so that it starves",
        file="domain/scheduling.py",
        text="            is_held = floor.hold(need) is not None",
        replacement="            is_held = True",
        tests=(FAIRNESS,),
    ),
    Mutant(
        name="reservations: a timed job does not keep the ground free",
        file="domain/floor.py",
        text="            self._disturb(best.ground, is_timed=True)",
        replacement="            pass",
        tests=(FAIRNESS,),
    ),
    Mutant(
        name="counting: a shard is complete with rows missing",
        file="db/finishing.py",
        text="    if present == wanted:",
        replacement="    if present <= wanted:",
        tests=(CLAIMS,),
    ),
    Mutant(
        name="counting: a step whose rows were lost counts all the same",
        file="domain/scheduling.py",
        text="        return PhaseState.VOID\n",
        replacement="        return PhaseState.COMPLETE\n",
        tests=(ADVANCING,),
    ),
    Mutant(
        name="counting: a warm-up counts as done",
        file="db/appending.py",
        text="    counted = statuses if is_own_phase else []",
        replacement="    counted = statuses",
        tests=(APPENDING,),
    ),
    Mutant(
        name="counting: an error among rows that do not count makes a run partial",
        file="db/advancing.py",
        text=" AND own.counts",
        replacement="",
        tests=("tests/shared/db/test_reused_errors.py",),
    ),
)


def survives(mutant: Mutant, folder: Path) -> bool:
    """Run a mutant's tests on it; True: none of them noticed."""
    copy = folder / PACKAGE.name
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    file = copy / mutant.file
    code = file.read_text(encoding="utf-8")
    if mutant.text not in code:
        sys.exit(f"{mutant.file} does not hold the text of this mutant any more: {mutant.name}")
    file.write_text(code.replace(mutant.text, mutant.replacement), encoding="utf-8")
    return passes(mutant.tests, folder)


def passes(tests: Sequence[str], folder: Path) -> bool:
    """Run tests with the library in a folder, to the first failure.

    Raises:
        RuntimeError: they could not be run.
    """
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:randomly", "-p", "no:cacheprovider", *tests]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode not in {0, 1}:
        message = f"pytest ended with {done.returncode}:\n{done.stdout}{done.stderr}"
        raise RuntimeError(message)
    return done.returncode == 0


def main() -> int:
    """Run every mutant, or those that an argument is in the name of; 1 where one survives."""
    wanted = [mutant for mutant in MUTANTS if all(word in mutant.name for word in sys.argv[1:])]
    tests = sorted({test for mutant in wanted for test in mutant.tests})
    if not passes(tests, PACKAGE.parent):
        sys.exit("The tests fail on the library as it is: their failing would prove nothing.")
    survivors = 0
    for mutant in wanted:
        with tempfile.TemporaryDirectory(prefix="vlmhb-mutant-") as folder:
            alive = survives(mutant, Path(folder))
        survivors += alive
        print("SURVIVES" if alive else "dies    ", mutant.name, flush=True)
    return int(survivors > 0)


if __name__ == "__main__":
    sys.exit(main())
