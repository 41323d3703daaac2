"""Targets name the secrets that their workers need."""

from __future__ import annotations

import pytest

from vlmhyperbench.domain.specs import EndpointTarget, ImportTarget, ModelTarget, Target

PARAMS = {"api_key_secret": "KEY", "threads": 2}


@pytest.mark.parametrize(
    ("target", "names"),
    [
        (ModelTarget(model="m", version="1", backend="b", backend_class="b", engine_params=PARAMS), ["KEY"]),
        (EndpointTarget(endpoint="http://127.0.0.1:1", model_name="m", engine_params=PARAMS), ["KEY"]),
        (EndpointTarget(endpoint="http://127.0.0.1:1", model_name="m"), []),
        (ImportTarget(model_name="m", format="f", answers="a" * 64), []),
    ],
    ids=["model", "endpoint", "endpoint without a key", "import"],
)
def test_a_target_names_the_secrets_of_its_parameters(target: Target, names: list[str]) -> None:
    assert target.secret_names == names
