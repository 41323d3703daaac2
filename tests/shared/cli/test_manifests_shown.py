"""What `show --manifest` prints of recipes, licences and the packages of metrics, and what is said to be unknown."""

from __future__ import annotations

from uuid import UUID

import pytest

from tests.shared.reports.builders import claim, evidence
from tests.support.wording import Wording
from vlmhyperbench.cli import exits
from vlmhyperbench.cli.manifests import show_manifest
from vlmhyperbench.cli.output_flags import TEXT
from vlmhyperbench.domain.environments import VirtualenvSpec
from vlmhyperbench.domain.recipes import QUANTIZER, ModelFile, RecipeSpec
from vlmhyperbench.domain.specs import RunSpec
from vlmhyperbench.summaries.manifest import METRICS, manifest_of
from vlmhyperbench.wire.manifests import RunManifest

ABOUT = {"run_id": str(UUID(int=1)), "name": "n", "spec_digest": "d" * 64, "sample_manifest": None}


def spec_of(licence: str | None) -> RunSpec:
    spec = evidence().spec
    source = ModelFile(role="weights", location="/models/f16.gguf", sha256="a" * 64)
    recipe = RecipeSpec(source="reader", quantize="Q4_0", sources=(source,), quantizer=QUANTIZER)
    environment = VirtualenvSpec(requirements=("my-bench==1.0.0",))
    metric = spec.metrics[0].model_copy(update={"environment": environment})
    target = spec.target.model_copy(update={"recipe": recipe, "license": licence})
    return spec.model_copy(update={"target": target, "metrics": (metric, *spec.metrics[1:])})


def shown(spec: RunSpec, *packages: str, capsys: pytest.CaptureFixture[str]) -> list[str]:
    used = {METRICS: {spec.metrics[0].label: dict.fromkeys(packages, "1.0")}} if packages else None
    claims = [claim(id=str(UUID(int=2)), job="SCORE", engine=None, environment=used)]
    manifest = manifest_of(spec, claims, run={**ABOUT, "platform_version": "1"}, origins={})
    assert show_manifest(RunManifest.model_validate(manifest), TEXT) == exits.OK
    return capsys.readouterr().out.splitlines()


def test_a_recipe_and_the_packages_of_a_metric_are_shown(capsys: pytest.CaptureFixture[str], wording: Wording) -> None:
    lines = shown(spec_of("Apache-2.0"), "my-bench", "numpy", capsys=capsys)
    said = [line for line in lines if line.startswith(("licence", "made by", "environment of"))]
    assert said[0] == "licence: Apache-2.0"
    wording("\n".join(said))
    assert any("a" * 64 in line and "/models/f16.gguf" in line for line in lines)


def test_what_nobody_knows_is_said_to_be_unknown(capsys: pytest.CaptureFixture[str]) -> None:
    lines = shown(spec_of(None), capsys=capsys)
    assert "licence: unknown" in lines
    assert [line for line in lines if line.endswith("(nothing scored yet)")]
