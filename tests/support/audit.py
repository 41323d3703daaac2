"""The protocol's invariants as queries over a stack's database: each must find nothing."""

from __future__ import annotations

from typing import Any, Protocol

from tests.support.stack import Stack

INVARIANTS = {
    "V1 every ordinal of a complete phase of a finished run has exactly one row, its own or a kept one": """
        WITH f AS (
            SELECT run_id, phase, ordinal FROM fact
            UNION ALL SELECT run_id, phase, ordinal FROM reused_fact
            UNION ALL SELECT k.run_id, k.phase, fact.ordinal FROM reused_phase k
                JOIN fact ON fact.run_id = k.source_run_id AND fact.phase = k.source_phase)
        SELECT r.id, p.no, p.count, count(f.ordinal)
        FROM run r JOIN phase p ON p.run_id = r.id LEFT JOIN f ON f.run_id = r.id AND f.phase = p.no
        WHERE r.finished_at IS NOT NULL AND p.state = 'COMPLETE'
        GROUP BY r.id, p.no, p.count, p.kind HAVING count(f.ordinal) <> p.count
            OR (p.count > 0 AND (min(f.ordinal) <> 0 OR max(f.ordinal) <> p.count - 1)
                AND p.kind NOT IN ('warmup', 'baseline'))""",
    "V2 a job's done is the number of its rows": """
        WITH f AS (
            SELECT run_id, phase, ordinal FROM fact UNION ALL SELECT run_id, phase, ordinal FROM reused_fact)
        SELECT j.id, j.done, count(f.ordinal) FROM job j
        LEFT JOIN f ON f.run_id = j.run_id AND f.phase = j.phase
            AND f.ordinal >= j.range_start AND f.ordinal < j.range_end
        WHERE j.kind IN ('GENERATE', 'IMPORT', 'MEMBER', 'COMBINE', 'JUDGE')
        GROUP BY j.id, j.done HAVING j.done <> count(f.ordinal)""",
    "V2 a row is of a claim of its run, whose job asked for it": """
        SELECT f.run_id, f.phase, f.ordinal FROM fact f
        LEFT JOIN claim c ON c.id = f.claim_id LEFT JOIN job j ON j.id = c.job_id
        WHERE j.run_id IS DISTINCT FROM f.run_id
            OR (j.phase = f.phase AND (f.ordinal < j.range_start OR f.ordinal >= j.range_end))""",
    "V2 no ordinal of any phase, also of a cancelled run, has a row of its own and a kept one": """
        WITH kept AS (
            SELECT run_id, phase, ordinal FROM reused_fact
            UNION ALL SELECT k.run_id, k.phase, fact.ordinal FROM reused_phase k
                JOIN fact ON fact.run_id = k.source_run_id AND fact.phase = k.source_phase)
        SELECT run_id, phase, ordinal FROM (SELECT run_id, phase, ordinal FROM fact UNION ALL TABLE kept) f
        GROUP BY run_id, phase, ordinal HAVING count(*) > 1""",
    "V2 a kept row is one that another run has measured": """
        SELECT r.run_id, r.phase, r.ordinal FROM reused_fact r LEFT JOIN fact f
            ON f.run_id = r.source_run_id AND f.phase = r.source_phase AND f.ordinal = r.source_ordinal
        WHERE (f.run_id IS NULL AND NOT EXISTS (SELECT FROM run_tier t WHERE t.run_id = r.source_run_id))
            OR r.source_run_id = r.run_id""",
    "V3 nothing is reserved for a job that does not run": """
        SELECT r.attempt_id FROM reservation r JOIN job j ON j.id = r.job_id
        WHERE j.state NOT IN ('ASSIGNED', 'RUNNING') OR j.attempt_id <> r.attempt_id""",
    "V3 no device is reserved over its bytes, and an exclusive job is alone": """
        SELECT d.worker_id, d.no FROM device d JOIN reservation r ON r.worker_id = d.worker_id AND r.device = d.no
        GROUP BY d.worker_id, d.no, d.memory_bytes
        HAVING sum(r.bytes) > d.memory_bytes OR (bool_or(r.is_exclusive) AND count(*) > 1)""",
    "V7 a finished run has no open job and no open phase": """
        SELECT r.id FROM run r WHERE r.finished_at IS NOT NULL AND (
            EXISTS (SELECT 1 FROM job j WHERE j.run_id = r.id AND j.state IN ('READY', 'ASSIGNED', 'RUNNING'))
            OR EXISTS (SELECT 1 FROM phase p WHERE p.run_id = r.id AND p.state = 'OPEN'))""",
    "V8 events of a stream are gapless": """
        SELECT stream_id, count(*), max(seq) FROM event GROUP BY stream_id
        HAVING count(*) <> max(seq) OR min(seq) <> 1""",
    "V11 every chunk has its rows": """
        SELECT c.run_id, c.claim_id, c.phase, c.no, c.rows, count(f.ordinal) FROM chunk c
        LEFT JOIN fact f ON f.run_id = c.run_id AND f.claim_id = c.claim_id AND f.phase = c.phase AND f.chunk = c.no
        GROUP BY c.run_id, c.claim_id, c.phase, c.no, c.rows HAVING count(f.ordinal) = 0""",
    "V12 no measure before the last row": """
        SELECT j.id FROM job j JOIN job g ON g.run_id = j.run_id AND g.kind IN ('GENERATE', 'IMPORT', 'JUDGE')
        WHERE j.kind = 'SCORE' AND j.state = 'DONE' AND g.state <> 'DONE'
            AND NOT (g.kind = 'JUDGE' AND g.state = 'FAILED')""",
    "no claim sent requests beside a timed one on its machine, unless what they use is apart or declared": """
        SELECT a.id, b.id FROM claim a JOIN claim b ON b.machine_id = a.machine_id AND b.id > a.id
        JOIN job first ON first.id = a.job_id JOIN job second ON second.id = b.job_id
        WHERE (first.is_timed OR second.is_timed)
            AND a.machine->'declared' IS NULL AND b.machine->'declared' IS NULL
            AND a.sending_from_ns < b.sending_until_ns AND b.sending_from_ns < a.sending_until_ns
            AND (a.gpus && b.gpus OR a.cores && b.cores OR cardinality(a.cores) * cardinality(b.cores) = 0)""",
}


class Audited(Protocol):
    """A stack, of processes or of containers."""

    def query(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """Read its database."""


def audit(stack: Audited) -> None:
    """Fail with the invariant's name and the rows that break it, or with the files that rows name and nobody has."""
    broken = {name: rows for name, query in INVARIANTS.items() if (rows := stack.query(query))}
    assert not broken
    if isinstance(stack, Stack) and not stack.setting("storage_url").startswith("s3:"):
        keys = stack.query("SELECT storage_key FROM chunk UNION SELECT storage_key FROM artifact")
        assert [key for (key,) in keys if not (stack.home.storage / key).is_file()] == []
