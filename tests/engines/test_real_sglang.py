"""SGLang itself on a processor, with a stub in place of the driver: its arguments, and every kind of request.

It needs 10 GB: `uv venv FOLDER/sglang && uv pip install --python FOLDER/sglang/bin/python sglang==0.5.23`, with
LOADGEN_PEERS=FOLDER for the tests, and a C compiler. Without them the tests are skipped, with what is missing.
"""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path

import pytest
from PIL import Image

from benchmarks.loadgen_conformance.clients import PEERS
from tests.engines.transformers_server import PYTHON as TRANSFORMERS
from tests.engines.transformers_server import answers_of_generate
from tests.engines.transformers_server import need_engine as need_transformers
from tests.engines.vllm import UNENFORCEABLE, question, text_of
from vlmhyperbench_sdk.gateway import EngineEnvironment, LoadRequest
from vlmhyperbench_sdk.testing.gateways import GatewayProcess
from vlmhyperbench_sdk.types import JsonObject, JsonValue
from vlmhyperbench_sglang.adapter import CPU_ENGINE, CPU_STUB, CPU_WARNING
from vlmhyperbench_tiny_doc_vlm import names, path

PYTHON = PEERS / "sglang" / "bin" / "python"
INSTALLED = next((PEERS / "sglang").glob("lib/python3*/site-packages/torch"), None)
HERE = Path(__file__).parent
START_S = 900.0
pytestmark = pytest.mark.timeout(int(START_S))
SCHEMA: JsonValue = {
    "type": "object",
    "properties": {"total": {"type": "integer", "minimum": 0, "maximum": 99}},
    "required": ["total"],
    "additionalProperties": False,
}


@pytest.fixture(scope="module")
def stub(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the stub, or a skip."""
    if INSTALLED is None:
        pytest.skip(f"SGLang is not installed with its libraries in {PEERS / 'sglang'}")
    if shutil.which("cc") is None:
        pytest.skip("There is no C compiler, cc.")
    folder = tmp_path_factory.mktemp("stub")
    argv = ["cc", "-shared", "-fPIC", "-o", str(folder / "libcuda.so.1"), str(HERE / "cuda_stub.c")]
    subprocess.run(argv, check=True)
    return folder


@pytest.fixture(scope="module")
def gateway(stub: Path) -> Iterator[GatewayProcess]:
    with _loaded(stub, [path(name, "0.2") for name in names("0.2") if not name.endswith(".gguf")]) as process:
        yield process


@contextmanager
def _loaded(stub: Path, files: Iterable[Path]) -> Iterator[GatewayProcess]:
    """Yield a gateway in which SGLang has loaded the files of a model."""
    params: JsonObject = {"max_num_seqs": 4, "gpu_memory_share": 0.3, "images_per_prompt": 2}
    load = LoadRequest(
        model="tiny",
        backend_class="sglang",
        files={file.name: str(file) for file in files},
        engine_params=params,
        load_timeout_s=START_S,
    )
    variables = {**EngineEnvironment(python=str(PYTHON)).to_variables(), CPU_STUB: str(stub)}
    with GatewayProcess(env=variables) as process:
        answer = process.load(load)
        assert answer.status == 200, answer.body[-2000:]
        yield process


def _page(*colours: str, text: str = "total") -> JsonValue:
    images = []
    for colour in colours:
        buffer = BytesIO()
        Image.new("RGB", (96, 96), colour).save(buffer, "PNG")
        url = f"data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode()}"
        images.append({"type": "image_url", "image_url": {"url": url}})
    return [*images, {"type": "text", "text": text}]


def test_it_says_that_it_is_no_measurement_of_sglang(gateway: GatewayProcess) -> None:
    engine = gateway.status()["engine"]
    assert isinstance(engine, dict)
    assert (engine["name"], engine["version"]) == (CPU_ENGINE, "0.5.23")
    assert engine["warnings"] == [CPU_WARNING]
    assert " --dtype float32 " in " ".join(map(str, engine["argv"]))


def test_the_record_of_its_options_is_what_it_takes(stub: Path) -> None:
    recorded = json.loads((HERE.parents[1] / "shared/plugins/sglang/tests/recorded.json").read_text())
    argv = [PYTHON, "-I", HERE / "sglang_options.py", *recorded["choices"]]
    variables = {**os.environ, "SGLANG_USE_CPU_ENGINE": "1", "LD_LIBRARY_PATH": str(stub)}
    done = subprocess.run(argv, env=variables, capture_output=True, text=True, timeout=START_S, check=True)
    assert json.loads(done.stdout.splitlines()[-1]) == recorded


def test_texts_and_images_are_answered_as_by_transformers(gateway: GatewayProcess) -> None:
    need_transformers()
    questions = [question(content) for content in ("Hello there", _page("white"), _page("white", "black", text="kind"))]
    given = [{**asked, "max_tokens": 12} for asked in questions]
    assert [text_of(gateway, asked) for asked in questions] == answers_of_generate(
        path("config.json", "0.2").parent, given
    )


def test_a_stream_has_the_text_of_the_whole_answer(gateway: GatewayProcess) -> None:
    whole = text_of(gateway, question(_page("white")))
    *chunks, last = gateway.chat(question(_page("white"), stream=True)).events()
    pieces = [choice["delta"].get("content") or "" for chunk in chunks for choice in json.loads(chunk)["choices"]]
    assert (last, "".join(pieces)) == ("[DONE]", whole)


def test_each_image_adds_its_tokens_and_one_too_many_is_refused(gateway: GatewayProcess) -> None:
    tokens = [
        gateway.chat(question(_page(*colours))).json()["usage"]["prompt_tokens"]
        for colours in ((), ("white",), ("white", "black"))
    ]
    assert tokens[2] - tokens[1] == tokens[1] - tokens[0] > 0
    assert gateway.chat(question(_page("white", "black", "white"))).status == 400


@pytest.mark.parametrize(
    ("wanted", "pattern"),
    [
        ({"type": "regex", "regex": "[0-9]{3}-[ab]{2}"}, "[0-9]{3}-[ab]{2}"),
        ({"type": "json_schema", "json_schema": {"schema": SCHEMA}}, r"\{\s*\"total\"\s*:\s*[0-9]{1,2}\s*\}"),
    ],
    ids=["regex", "json_schema"],
)
def test_an_answer_has_the_form_that_was_asked_for(gateway: GatewayProcess, wanted: JsonValue, pattern: str) -> None:
    assert re.fullmatch(pattern, text_of(gateway, question(_page("white"), response_format=wanted, max_tokens=60)))


@pytest.mark.parametrize("wanted", UNENFORCEABLE)
def test_a_format_that_cannot_be_enforced_whole_is_refused(gateway: GatewayProcess, wanted: JsonValue) -> None:
    assert gateway.chat(question(response_format=wanted)).status == 400
    assert text_of(gateway, question())


def test_json_objects_begin_as_such(gateway: GatewayProcess) -> None:
    answer = text_of(gateway, question(response_format={"type": "json_object"}, max_tokens=5))
    assert answer.lstrip().startswith("{")


def test_fields_have_their_effect(gateway: GatewayProcess) -> None:
    plain = text_of(gateway, question(ignore_eos=True, max_tokens=30))
    assert text_of(gateway, question(ignore_eos=True, max_tokens=30, stop=[plain[2]])) == plain[: plain.index(plain[2])]
    for narrow in ({"top_k": 1}, {"top_p": 0.0001}, {"min_p": 1}):
        assert text_of(gateway, question(**{"temperature": 2, "ignore_eos": True, "max_tokens": 30, **narrow})) == plain
    for penalty in ({"presence_penalty": 2}, {"frequency_penalty": 2}):
        assert text_of(gateway, question(ignore_eos=True, max_tokens=30, **penalty)) != plain
    usage = gateway.chat(question(min_tokens=11)).json()["usage"]
    assert isinstance(usage, dict)
    assert int(str(usage["completion_tokens"])) >= 11


def test_several_choices_and_log_probabilities_come(gateway: GatewayProcess) -> None:
    answer = gateway.chat(question(n=2, temperature=1, logprobs=True, top_logprobs=3)).json()
    choices = answer["choices"]
    assert isinstance(choices, list)
    assert [choice["index"] for choice in choices] == [0, 1]
    assert all(len(choice["logprobs"]["content"][0]["top_logprobs"]) == 3 for choice in choices)


def test_a_seed_of_a_drawn_answer_and_a_prompt_beyond_the_context_are_refused(gateway: GatewayProcess) -> None:
    assert gateway.chat(question(seed=1, temperature=1)).error_code() == "unsupported"
    assert gateway.chat(question("x" * 5000)).status == 400
    assert text_of(gateway, question())


def test_a_model_of_texts_alone_answers_as_by_transformers_and_refuses_images(stub: Path, tmp_path: Path) -> None:
    need_transformers()
    argv = [TRANSFORMERS, "-I", HERE / "models.py", "wide", tmp_path, path("config.json", "0.2").parent]
    subprocess.run(argv, check=True, capture_output=True, timeout=300)
    with _loaded(stub, tmp_path.iterdir()) as process:
        asked = [question(), question("The total, please")]
        assert [text_of(process, request) for request in asked] == answers_of_generate(tmp_path, asked)
        assert process.chat(question(_page("white"))).status == 400
        assert text_of(process, asked[0])
