"""The manifest of a run: engines that were used alike stand once, weights are confirmed, secrets are left out."""

from __future__ import annotations

import json

from tests.shared.reports.builders import claim, evidence
from vlmhyperbench.domain.environments import VirtualenvSpec
from vlmhyperbench.domain.packages import GitPackage
from vlmhyperbench.domain.recipes import QUANTIZER, ModelFile, RecipeSpec
from vlmhyperbench.domain.specs import EndpointTarget
from vlmhyperbench.summaries.manifest import METRICS, SCHEMA, manifest_of, to_json
from vlmhyperbench_sdk.types import JsonObject

ABOUT = {"run_id": "r", "name": "n", "spec_digest": "d", "sample_manifest": None, "platform_version": "1"}
SPEC = evidence().spec
WEIGHTS = "d" * 64
ENGINE: JsonObject = {"name": "llama.cpp", "version": "b1", "argv": ["x"], "packages": {"a": "1"}}


def test_claims_that_used_the_same_stand_once_and_others_apart() -> None:
    used = {"kind": "virtualenv", "key": "k", "certificate": {"file": "f"}}
    claims = [
        claim(id="first", environment=used),
        claim(id="second", environment=used),
        claim(id="third", environment={**used, "key": "other"}),
        claim(id="fourth", environment=used, engine={**ENGINE, "variables": {"OMP_NUM_THREADS": "1"}}),
        claim(id="scoring", job="SCORE", engine=None),
        claim(id="replaying", job="MEMBER", engine=None, measured_at=None),
    ]
    manifest = manifest_of(SPEC, claims, run=ABOUT, origins={})
    assert manifest["schema"] == SCHEMA
    engines = manifest["engines"]
    assert isinstance(engines, list)
    assert [used["claims"] for used in engines] == [["first", "second"], ["third"], ["fourth"]]
    assert [used["engine"]["variables"] for used in engines] == [None, None, {"OMP_NUM_THREADS": "1"}]
    assert (engines[0]["environment"], engines[0]["certificate"]) == (
        {"kind": "virtualenv", "key": "k"},
        {"file": "f"},
    )
    assert manifest["workers"] == [{"jobs": ["GENERATE", "MEMBER", "SCORE"], "packages": {"vlmhyperbench": "0.1.0"}}]


def test_weights_are_confirmed_only_if_every_engine_states_their_hash() -> None:
    right = claim(engine={**ENGINE, "weights_sha256": {"weights": WEIGHTS}})
    wrong = claim(engine={**ENGINE, "weights_sha256": {"weights": "e" * 64}})
    confirmed = []
    for claims in ([right], [right, wrong], []):
        [file] = json.loads(to_json(manifest_of(SPEC, claims, run=ABOUT, origins=None)))["weights"]
        assert file["sha256"] == WEIGHTS
        confirmed.append(file["is_confirmed"])
    assert confirmed == [True, False, False]


def test_weights_that_a_recipe_made_are_stated_with_inputs_and_tools() -> None:
    source = ModelFile(role="weights", location="/models/f16.gguf", sha256="a" * 64)
    recipe = RecipeSpec(source="reader", quantize="Q4_0", sources=(source,), quantizer=QUANTIZER)
    target = SPEC.target.model_copy(update={"recipe": recipe})
    manifest = manifest_of(SPEC.model_copy(update={"target": target}), [], run=ABOUT, origins=None)
    assert manifest["recipe"] == {
        "source": "reader",
        "inputs": [{"role": "weights", "location": "/models/f16.gguf", "sha256": "a" * 64}],
        "steps": {"quantize": "Q4_0"},
        "tools": {"quantizer": ["cyllama==0.2.18"]},
        "key": recipe.key,
    }
    assert manifest_of(SPEC, [], run=ABOUT, origins=None)["recipe"] is None


def test_packages_of_metrics_in_their_own_environments_are_those_that_scored() -> None:
    package = GitPackage(name="mine", url="https://host/mine.git", commit="c" * 40)
    pinned = VirtualenvSpec(requirements=("numpy==1.26.4",), packages=(package,))
    metric = SPEC.metrics[0].model_copy(update={"environment": pinned})
    spec = SPEC.model_copy(update={"metrics": (metric, *SPEC.metrics[1:])})
    earlier, later = ({"mine": f"1.{minor} (commit {'c' * 40})", "numpy": "1.26.4"} for minor in (0, 1))
    claims = [
        claim(id=str(number), job="SCORE", environment={METRICS: {metric.label: packages}})
        for number, packages in enumerate((earlier, later))
    ]
    for known, packages in ((claims, later), ([], None)):
        plugins = manifest_of(spec, [claim(), *known], run=ABOUT, origins=None)["plugins"]
        assert isinstance(plugins, dict)
        assert plugins["environments"] == {
            metric.label: {
                "requirements": ["numpy==1.26.4"],
                "sources": {"mine": f"git+https://host/mine.git@{'c' * 40}"},
                "packages": packages,
            }
        }


def test_values_without_a_recorded_origin_say_so() -> None:
    values = manifest_of(SPEC, [], run=ABOUT, origins={"task": "--task"})["configuration"]
    assert isinstance(values, dict)
    assert values["task"] == {"value": SPEC.task, "origin": "--task"}
    assert values["decoding.seed"] == {"value": None, "origin": "not recorded"}


def test_the_address_of_an_endpoint_has_no_secret_part() -> None:
    target = EndpointTarget(endpoint="http://user:secret@host/v1?key=secret", model_name="remote")
    written = to_json(manifest_of(SPEC.model_copy(update={"target": target}), [], run=ABOUT, origins=None)).decode()
    assert "secret" not in json.loads(written)["configuration"]["target.endpoint"]["value"]
    assert json.loads(written)["weights"] == []
