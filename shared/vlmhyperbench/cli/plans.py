"""Print plans on paper: of an experiment on workers, and of one run before it is submitted."""

from __future__ import annotations

import json

from vlmhyperbench.cli.output import note, say, table
from vlmhyperbench.cli.output_flags import OutputFlags
from vlmhyperbench.domain.needs import in_gib
from vlmhyperbench.wire.placement import Plan
from vlmhyperbench.wire.plans import PlannedCost, PlannedTime, RunPlan

_FITS = {
    "fits": "fits",
    "fits_later": "fits when it is free",
    "takes_all": "unknown, takes all of it",
    "too_small": "too small",
    "unavailable": "not available",
}


def print_run_plan(plan: RunPlan, output: OutputFlags) -> None:
    """Print what a run would be, ask, need and take; defaults are left out."""
    for warning in plan.warnings:
        note(f"warning: {warning}", output)
    say(f"{plan.name}: spec {plan.spec_digest[:12]}; nothing was created")
    say(f"samples: {_count(plan.samples.count)} ({plan.samples.note})")
    asked = [f"{_count(item.count)} {item.member or item.metric or item.kind}" for item in plan.requests]
    say(f"requests: {', '.join(asked)}")
    say(f"inference: {_duration(plan.time)}")
    if plan.memory.refused is not None:
        say(f"memory: {plan.memory.refused}")
    rows = [
        (
            device.target,
            f"{device.worker} {device.device}",
            "unknown" if device.need_bytes is None else in_gib(device.need_bytes),
            in_gib(device.free_bytes),
            _FITS[device.fit],
            device.basis,
        )
        for device in plan.memory.devices
    ]
    if rows:
        table(["target", "device", "needs", "free", "verdict", "by"], rows, right=["needs", "free"])
    else:
        say(f"memory: {plan.memory.note}")
    for environment in plan.environments:
        say(f"environment of {environment.of}: {environment.state}; {', '.join(environment.installs)}")
    say(f"cost: {_cost(plan.cost)}")
    values = [
        (path, json.dumps(value.value, ensure_ascii=False), value.origin)
        for path, value in plan.configuration.items()
        if value.origin != "default"
    ]
    table(["value", "is", "written in"], values)


def _count(count: int | None) -> str:
    return "unknown" if count is None else f"{count:,}"


def _duration(time: PlannedTime) -> str:
    if time.expected_s is None:
        return f"unknown, {time.note}"
    return f"{_time(time.expected_s)} ({_time(time.shortest_s)} to {_time(time.longest_s)}), {time.note}"


def _cost(cost: PlannedCost) -> str:
    if cost.total is None:
        return f"unknown, {cost.note}"
    return f"{cost.total:.3g} {cost.currency} ({cost.low:.3g} to {cost.high:.3g}), {cost.note}"


def print_paper(paper: Plan, output: OutputFlags) -> None:
    """Print where and when the runs of an experiment would be asked."""
    rows = [
        (
            placed.run,
            placed.worker,
            ",".join(map(str, placed.devices)) or "none",
            "" if placed.bytes_each is None else in_gib(placed.bytes_each),
            "alone" if placed.is_alone else "shared",
            _time(placed.starts_s),
            _time(placed.ends_s),
        )
        for placed in paper.placements
    ]
    table(["run", "worker", "devices", "each", "use", "from", "until"], rows, right=["each", "from", "until"])
    for refusal in paper.refused:
        say(f"{refusal.run} fits no device. {refusal.reason}")
    if paper.waiting:
        say(f"without a worker that may take them: {', '.join(paper.waiting)}")
    between = f"{_time(paper.shortest_s)} to {_time(paper.longest_s)} at the fastest and slowest paces measured"
    total = f"inference takes {_time(paper.makespan_s)} in all ({between})"
    say(total if paper.makespan_s is not None else "the time is unknown")
    if paper.judged:
        note(f"judges are asked too, which is not in this plan: {', '.join(paper.judged)}", output)
    if paper.unknown:
        note(f"nothing like these has finished yet: {', '.join(paper.unknown)}", output)


def _time(seconds: float | None) -> str:
    if seconds is None:
        return "unknown"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}"
