"""Print what SGLang's server takes: options, the choices of some, fields of chat requests.

It runs in SGLang's environment.
`sglang_options.py OPTION … > shared/plugins/sglang/tests/recorded.json` records it anew, with the choices of these
options; on a machine without a GPU with `SGLANG_USE_CPU_ENGINE=1`.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import sys

from sglang.srt.entrypoints.openai.protocol import ChatCompletionRequest
from sglang.srt.server_args import ServerArgs


def main(wanted: list[str]) -> None:
    """Print it as JSON."""
    parser = argparse.ArgumentParser()
    ServerArgs.add_cli_args(parser)
    taken = {option: action.choices for action in parser._actions for option in action.option_strings}
    choices = {option: sorted(map(str, taken[option])) for option in wanted if taken.get(option)}
    version, fields = importlib.metadata.version("sglang"), sorted(ChatCompletionRequest.model_fields)
    print(json.dumps({"version": version, "options": sorted(taken), "choices": choices, "fields": fields}))


if __name__ == "__main__":
    main(sys.argv[1:])
