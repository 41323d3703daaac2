"""The entry point: the table of commands, and the handling of errors, Ctrl-C and closed pipes.

Only the called command is imported, and the argument parser only for a command, so that `--help` is fast.
"""

from __future__ import annotations

import errno
import importlib
import io
import os
import signal
import sys
from collections.abc import Sequence
from typing import Any, TextIO

from vlmhyperbench.cli import exits
from vlmhyperbench.errors import DoesNotFit, InvalidInput, Unavailable, VlmHyperBenchError

_CANNOT_WRITE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})

_GROUPS: dict[str, dict[str, tuple[str, str]]] = {
    "Run": {
        "demo": ("demo:demo", "Start a stack, compare two small models on document images, write a report."),
        "run": ("run:run", "Submit a run or an experiment, and follow it until it ends."),
        "rerun": ("rerun:rerun", "Repeat a run; answers to unchanged requests are reused."),
        "rescore": ("rescore:rescore", "Score the stored answers of a run again, for example with other metrics."),
        "import": ("import_:import_", "Score answers from a file of another tool."),
        "pipeline": ("pipeline:app", "Ask a pipeline of models a question, step by step; or serve it like one model."),
        "watch": ("watch:watch", "Follow a run or an experiment until it ends."),
        "pause": ("steering:pause", "Pause a run, or the open runs of an experiment."),
        "resume": ("steering:resume", "Continue a paused run, or the paused runs of an experiment."),
        "retune": ("steering:retune", "Change how many requests a run keeps in flight, while it runs."),
        "cancel": ("steering:cancel", "Cancel a run or an experiment; finished requests are kept."),
    },
    "Inspect": {
        "ls": ("ls:ls", "List runs, experiments, sessions or artifacts."),
        "show": ("show:show", "Show the state, scores and errors of a run or an experiment."),
        "report": ("report:report", "Print the results of a run or an experiment, and download its report."),
        "export": ("export:export", "Write a finished run in the format of another tool, or as a table."),
    },
    "Compare": {
        "compare": ("compare:compare", "Compare runs with a baseline, answer by answer; check a gate policy."),
        "diff": ("diff:diff", "Show what differs between two evaluations or two runs."),
    },
    "Offline (no stack needed)": {
        "load": ("load.command:load", "Measure the speed of an OpenAI-compatible URL."),
        "serve": ("serve:serve", "Serve one model at an OpenAI-compatible URL."),
        "score": ("score:score", "Score a file of answers with one metric."),
        "new": ("new:new", "Make a package of your own: a metric, a dataset, a prompt, a backend, a report."),
    },
    "Stack": {
        "up": ("stack:up", "Start the embedded stack in the background and wait until it is ready."),
        "down": ("stack:down", "Stop the embedded stack."),
        "open": ("opening:open_", "Open the dashboard in a browser, signed in."),
        "status": ("stack:status", "Show the processes of the embedded stack, their restarts and memory."),
        "backup": ("backup:backup", "Write database and stored files into a folder, also while runs go on."),
        "restore": ("backup:restore", "Restore a backup into an empty home or database."),
        "storage": ("storage:app", "Say where the data of runs is; move, restore and pin runs."),
        "compose": ("compose:compose", "Prepare Docker Compose on this machine: secrets, a worker per GPU, checks."),
        "worker": ("worker:worker", "Run a worker on this machine for a stack, until Ctrl-C."),
        "workers": ("workers:app", "List, drain, resume and release workers; plan on paper; tokens to join."),
        "slurm": ("slurm:slurm", "Write an sbatch file for workers that join from a Slurm cluster."),
        "firewall": ("firewall:firewall", "Print firewall rules for the ports of this stack."),
        "doctor": ("doctor:doctor", "Check that this machine can run the stack: programs, port, disk, registries."),
        "init": ("init:init", "Make a project folder of your own, with a run that works."),
        "registry": ("registry:app", "List, show, validate, add, push and pull registry entries (models, tasks …)."),
        "data": ("data:app", "Show the first samples of a dataset; check images, keys and splits before a run."),
        "models": ("models:app", "List, show, fetch and remove models; estimate the memory that one needs."),
        "envs": ("envs:app", "List, build, check and remove the environments in which engines run."),
        "secret": ("secret:app", "Store, list and remove API keys and tokens."),
    },
}
"""Group of the help → name of a command → (module:function in this room, help)."""
_COMMANDS = {name: command for group in _GROUPS.values() for name, command in group.items()}

_HELP = """\
Usage: vlmhyperbench COMMAND [ARGUMENTS]

Benchmark vision-language models: quality, speed, memory and cost, measured on the same answers.

{commands}

Options:
  -h, --help   Show this help, or the help of a command.
  --version    Show the version.

Every command takes --json, which prints JSON instead of text.

Examples:
  vlmhyperbench demo
  vlmhyperbench run --model tiny-doc-vlm --task document-qa --limit 20
  vlmhyperbench compare BASELINE_RUN_ID OTHER_RUN_ID
  vlmhyperbench load http://localhost:8000 --model NAME --concurrency 8"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; the console script exits with it."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    signal.signal(signal.SIGTERM, _terminate)
    _escape_unencodable_text()
    try:
        code = _dispatch(given)
        sys.stdout.flush()
    except VlmHyperBenchError as error:
        return _print_error(error, given)
    except KeyboardInterrupt as error:
        return exits.code_of_interrupt(error)
    except BrokenPipeError:
        _discard_output(sys.stdout)
        return exits.UNEXPECTED
    except OSError as error:
        if error.errno in _CANNOT_WRITE:
            _discard_output(sys.stdout)
        return _print_error(_system_error(error), given)
    return code


def _system_error(error: OSError) -> VlmHyperBenchError:
    """Turn an error of the operating system into one of the product; a name that is too long is the user's mistake."""
    if error.errno in _CANNOT_WRITE:
        file = str(error.filename)[:200] if error.filename is not None else "The output"
        message = f"{file} cannot be written: {error.strerror}."
        return Unavailable(message, cure="Free some space, or write to another disk.", code="output")
    location = f"{str(error.filename)[:200]}: " if error.filename is not None else ""
    message = f"{location}{error.strerror or error}."
    if error.errno == errno.ENAMETOOLONG:
        return InvalidInput(message, cure="Give a shorter name.")
    return Unavailable(message, cure="Correct the path or its permissions.")


def _print_error(error: VlmHyperBenchError, given: Sequence[str]) -> int:
    from vlmhyperbench.cli.output import print_error

    try:
        print_error(error, as_json="--json" in given)
        if isinstance(error, DoesNotFit) and "--json" not in given:
            from vlmhyperbench.cli.shortages import show_shortage
            from vlmhyperbench.wire.shortages import MemoryShortage

            show_shortage(MemoryShortage.model_validate(error.facts))
    except OSError:
        _discard_output(sys.stderr)
    return exits.code_of(error)


def _discard_output(stream: TextIO) -> None:
    """Send the rest of a stream to the null device, because its reader has closed it or its disk is full."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _escape_unencodable_text() -> None:
    """Print characters that the terminal's encoding lacks as escapes, so that no text fails to print."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _dispatch(given: list[str]) -> int:
    match given:
        case [] | ["--help" | "-h", *_]:
            commands = "\n\n".join(
                "\n".join([f"{title}:", *(f"  {name:<11}{text}" for name, (_, text) in group.items())])
                for title, group in _GROUPS.items()
            )
            sys.stdout.write(_HELP.format(commands=commands) + "\n")
            return exits.OK
        case ["--version", *_]:
            from importlib.metadata import version

            sys.stdout.write(version("vlmhyperbench") + "\n")
            return exits.OK
        case [name, *_] if name in _COMMANDS:
            return _call(name, given)
        case [name, *_]:
            raise _unknown(name)
    return exits.USAGE


def _call(name: str, given: list[str]) -> int:
    from cyclopts import App, CycloptsError

    from vlmhyperbench.cli.groups import COMMON

    app = App(
        name="vlmhyperbench",
        suppress_keyboard_interrupt=False,
        result_action="return_value",
        default_parameter=COMMON,
    )
    app.command(_import(name), name=name)
    try:
        result = app(given, exit_on_error=False, print_error=False)
    except CycloptsError as error:
        raise InvalidInput(str(error), cure=f"Read the help: vlmhyperbench {name} --help.", code="usage") from error
    return result if isinstance(result, int) else exits.OK


def _import(name: str) -> Any:
    from vlmhyperbench.extras import not_installed

    module, _, attribute = _COMMANDS[name][0].partition(":")
    try:
        return getattr(importlib.import_module(f"vlmhyperbench.cli.{module}"), attribute)
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("vlmhyperbench."):
            raise
        raise not_installed(error, name) from error


def _unknown(name: str) -> InvalidInput:
    import difflib

    similar = difflib.get_close_matches(name, _COMMANDS, n=3)
    cure = f"Did you mean {' or '.join(similar)}?" if similar else "Read the help: vlmhyperbench --help."
    return InvalidInput(f"There is no command {name!r}.", cure=cure, code="unknown_command")


def _terminate(*_: object) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise exits.Terminated


if __name__ == "__main__":
    sys.exit(main())
