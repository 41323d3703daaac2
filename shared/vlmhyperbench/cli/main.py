"""The entry point: which commands there are, and what becomes of errors, Ctrl-C and closed pipes.

Only the command that is called is imported, and the argument parser only for a command: `--help` answers at once.
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
from vlmhyperbench.errors import InvalidInput, Unavailable, VlmHyperBenchError

_CANNOT_WRITE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})

_GROUPS: dict[str, dict[str, tuple[str, str]]] = {
    "Run": {
        "demo": ("demo:demo", "Start everything, compare two targets on document images, show the report."),
        "run": ("run:run", "Submit a run or an experiment and watch it."),
        "rerun": ("rerun:rerun", "Run again; answers to requests that have not changed are reused."),
        "rescore": ("rescore:rescore", "Score the answers of a run again, by other metrics; no model is asked."),
        "import": ("import_:import_", "Score the answers in another tool's file."),
        "watch": ("watch:watch", "Follow a run or an experiment until it ends."),
        "pause": ("steering:pause", "Pause a run or the runs of an experiment."),
        "resume": ("steering:resume", "Continue a paused run or experiment."),
        "cancel": ("steering:cancel", "Cancel a run or an experiment."),
    },
    "Inspect": {
        "ls": ("ls:ls", "List runs, experiments, workers or artifacts."),
        "show": ("show:show", "Show a run or an experiment."),
        "report": ("report:report", "Print the results of a run or an experiment, and fetch its report."),
        "export": ("export:export", "Write a finished run in another tool's format, or as a table."),
    },
    "Compare": {
        "compare": ("compare:compare", "Compare runs with a baseline, answer by answer; check a gate."),
        "diff": ("diff:diff", "Show what differs between two evaluations or two runs."),
    },
    "Offline (no stack needed)": {
        "load": ("load.command:load", "Measure the speed of any OpenAI-compatible URL."),
        "serve": ("serve:serve", "Serve one model at an OpenAI-compatible URL."),
        "score": ("score:score", "Score a file of answers by one metric."),
    },
    "Stack": {
        "up": ("stack:up", "Start the embedded stack in the background and wait until it is ready."),
        "down": ("stack:down", "Stop the embedded stack."),
        "status": ("stack:status", "Show the processes of the embedded stack, their restarts and memory."),
        "worker": ("worker:worker", "Add a worker on this machine to a stack."),
        "doctor": ("doctor:doctor", "Check Python, servers, ports, disk, locale, registries and model files."),
        "registry": ("registry:app", "List, show, validate and add registry entries."),
        "secret": ("secret:app", "Store, list and remove keys and tokens."),
    },
}
"""Group of the help → name of a command → (function in this room, help)."""
_COMMANDS = {name: command for group in _GROUPS.values() for name, command in group.items()}

_HELP = """\
Usage: vlmhyperbench COMMAND [ARGUMENTS]

Benchmark vision-language models: quality, speed, memory and cost of the same answers.

{commands}

Options:
  -h, --help   Show this help, or the help of a command.
  --version    Show the version.

Every command takes --json. First steps: vlmhyperbench demo"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; the console script exits with it."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    signal.signal(signal.SIGTERM, _terminate)
    _escape_what_cannot_be_encoded()
    try:
        code = _dispatch(given)
        sys.stdout.flush()
    except VlmHyperBenchError as error:
        return _complain(error, given)
    except KeyboardInterrupt as error:
        return exits.code_of_interrupt(error)
    except BrokenPipeError:
        _write_nowhere(sys.stdout)
        return exits.UNEXPECTED
    except OSError as error:
        if error.errno in _CANNOT_WRITE:
            _write_nowhere(sys.stdout)
        return _complain(_of_the_system(error), given)
    return code


def _of_the_system(error: OSError) -> VlmHyperBenchError:
    """Say what the system refused; a name that it cannot even look up is the caller's mistake."""
    if error.errno in _CANNOT_WRITE:
        message = f"The output cannot be written: {error.strerror}."
        return Unavailable(message, cure="Free some space, or write elsewhere.", code="output")
    where = f"{str(error.filename)[:200]}: " if error.filename is not None else ""
    message = f"{where}{error.strerror or error}."
    if error.errno == errno.ENAMETOOLONG:
        return InvalidInput(message, cure="Correct the name.")
    return Unavailable(message, cure="Correct the path or its permissions.")


def _complain(error: VlmHyperBenchError, given: Sequence[str]) -> int:
    from vlmhyperbench.cli.output import complain

    try:
        complain(error, as_json="--json" in given)
    except OSError:
        _write_nowhere(sys.stderr)
    return exits.code_of(error)


def _write_nowhere(stream: TextIO) -> None:
    """Give what is still to be written to the null device: nobody is there to read it."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _escape_what_cannot_be_encoded() -> None:
    """Write what a terminal's encoding lacks as its escape: an ASCII terminal shows every answer."""
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
        raise InvalidInput(str(error), cure=f"See vlmhyperbench {name} --help.", code="usage") from error
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

    near = difflib.get_close_matches(name, _COMMANDS, n=3)
    cure = f"Did you mean {', '.join(near)}?" if near else "See vlmhyperbench --help."
    return InvalidInput(f"There is no command {name!r}.", cure=cure, code="unknown_command")


def _terminate(*_: object) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise exits.Terminated


if __name__ == "__main__":
    sys.exit(main())
