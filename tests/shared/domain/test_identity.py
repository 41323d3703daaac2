"""The evaluation identity: any change of what determines a number gives another id, and `differences` names it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.shared.domain.builders_of_jobs import judge_metric
from tests.shared.reports.builders import run_spec
from vlmhyperbench.domain.digests import digest_of
from vlmhyperbench.domain.environments import VirtualenvSpec
from vlmhyperbench.domain.identity import (
    ABSENT,
    ONLY_DECLARED,
    Difference,
    declared_devices,
    definition_of,
    differences,
    id_of,
    identify,
    is_declared,
    kind_of_machine,
)
from vlmhyperbench.domain.prices import Prices
from vlmhyperbench.domain.specs import (
    DatasetSpec,
    Decoding,
    EndpointTarget,
    ExtractorSpec,
    ImportTarget,
    MetricSpec,
    ModelTarget,
    PackageRef,
    PromptSpec,
    PromptStrategySpec,
    RunSpec,
    SourceRef,
)

METRIC = MetricSpec(name="anls", profile="paper", version="1.0.0", class_path="anls")
JSON = st.recursive(st.none() | st.booleans() | st.integers(0, 2), lambda x: st.dictionaries(st.sampled_from("ab"), x))


def identity(spec: RunSpec | None = None, **changes: object) -> dict[str, object]:
    given_: dict[str, object] = {
        "metric": METRIC,
        "extractor": ExtractorSpec(),
        "manifest_id": "m1",
        "engines": [("llama.cpp", "b1")],
        "environment": "abc",
    }
    return identify(spec or run_spec(), **(given_ | changes))


def test_the_name_of_a_run_does_not_change_the_evaluation_id() -> None:
    engines = [("llama.cpp", "b2"), ("llama.cpp", "b1")]
    assert id_of(identity(engines=engines)) == id_of(identity(engines=engines[::-1] * 2))
    assert id_of(identity())[0] == "e"
    assert len(id_of(identity())) == 13


def test_an_imported_number_is_identified_by_its_file() -> None:
    target = ImportTarget(model_name="other", format="lm-eval", answers="a" * 64)
    result = identity(run_spec(target=target))
    assert result["weights"] == {"model_name": "other", "answers": "a" * 64}
    assert (result["prompt"], result["decoding"]) == (None, None)
    assert (target.served_name, target.backend_class, target.engine_params) == ("other", "import", {})


@pytest.mark.parametrize(
    ("other", "path"),
    [
        (identity(engines=[("llama.cpp", "b2")]), "engine.measured"),
        (identity(manifest_id="m2"), "dataset.samples"),
        (identity(environment="x"), "metric.environment"),
        (identity(extractor=ExtractorSpec(name="json")), "extractor.name"),
        (identity(metric=METRIC.model_copy(update={"profile": "inclusive"})), "metric.profile"),
        (
            identity(metric=METRIC.model_copy(update={"package": PackageRef(distribution="d", version="1")})),
            "metric.package",
        ),
        (identity(run_spec(prompt=PromptSpec(name="plain", version="1.0.1"))), "prompt.version"),
        (identity(run_spec(decoding=Decoding(max_tokens=7))), "decoding.max_tokens"),
        (identity(run_spec(response_format={"type": "json_object"})), "decoding.response_format"),
        (identity(run_spec(on_invalid="zero")), "extractor.on_invalid"),
        (identity(run_spec(dataset=DatasetSpec(name="documents", version="2.0.0", type="t"))), "dataset.version"),
    ],
)
def test_a_difference_is_named_by_its_path(other: dict[str, object], path: str) -> None:
    assert [item.path for item in differences(identity(), other)] == [path]
    assert id_of(other) != id_of(identity())


def test_the_environment_of_the_engine_is_part_of_the_identity_where_there_is_one() -> None:
    target = ModelTarget(model="m", version="1.0.0", backend="b", backend_class="b")
    plain = identity(run_spec(target=target))
    assert "environment" not in plain["engine"]
    one, two = (
        identity(run_spec(target=target.model_copy(update={"environment": VirtualenvSpec(requirements=(line,))})))
        for line in ("torch==2.12.0", "torch==2.13.0")
    )
    assert len({id_of(found) for found in (plain, one, two)}) == 3
    assert [item.path for item in differences(one, two)] == ["engine.environment.requirements"]


def test_how_requests_are_written_is_part_of_the_identity_where_it_is_not_the_usual_way() -> None:
    target = ModelTarget(model="m", version="1.0.0", backend="b", backend_class="b")
    usual, instruct, translating = (
        identity(run_spec(target=target.model_copy(update={"request_style": style})))
        for style in ("openai_chat", "instruct", "translategemma")
    )
    assert "request_style" not in usual["engine"]
    assert id_of(usual) == id_of(identity(run_spec(target=target)))
    assert list(differences(usual, instruct)) == [Difference(path="engine.request_style", a=ABSENT, b="instruct")]
    assert len({id_of(found) for found in (usual, instruct, translating)}) == 3


def test_the_packages_of_a_metric_in_its_own_environment_are_part_of_the_identity() -> None:
    old, new = (identity(packages={"numpy": number, "python": "3.11.7"}) for number in ("1.26.4", "2.4.6"))
    assert [item.path for item in differences(old, new)] == ["metric.packages.numpy"]
    assert len({id_of(found) for found in (identity(), old, new)}) == 3
    assert "packages" not in identity()["metric"]


def test_a_prompt_plugin_is_identified_by_package_version_and_parameters() -> None:
    package = PackageRef(distribution="prompts", version="1")
    spec = PromptStrategySpec(name="steps", version="1.0.0", class_path="steps", package=package, params={"steps": 1})
    newer = spec.model_copy(update={"package": PackageRef(distribution="prompts", version="2")})
    longer = spec.model_copy(update={"params": {"steps": 2}})
    known = identity(run_spec(prompt=spec))
    for changed, path in ((newer, "prompt.package.version"), (longer, "prompt.params.steps")):
        result = identity(run_spec(prompt=changed))
        assert [difference.path for difference in differences(known, result)] == [path]


def test_a_plugin_of_a_dotted_path_is_identified_by_its_source() -> None:
    before, after = (SourceRef(module="mine", sha256=letter * 64) for letter in "ab")
    spec = PromptStrategySpec(name="mine", version="1.0.0", class_path="mine:Prompt", package=before)
    edited = spec.model_copy(update={"package": after})
    assert [
        difference.path
        for difference in differences(identity(run_spec(prompt=spec)), identity(run_spec(prompt=edited)))
    ] == ["prompt.package.sha256"]
    measured, other = (METRIC.model_copy(update={"package": source}) for source in (before, after))
    assert identity(metric=measured) != identity(metric=other)
    assert definition_of(measured) != definition_of(other)
    target = EndpointTarget(endpoint="http://127.0.0.1:1", model_name="m", backend_class="mine:Adapter", adapter=before)
    changed = target.model_copy(update={"adapter": after})
    assert identity(run_spec(target=target)) != identity(run_spec(target=changed))
    assert run_spec(target=target).target_digest != run_spec(target=changed).target_digest


def test_the_digest_of_an_endpoint_with_a_named_adapter_has_not_changed() -> None:
    target = EndpointTarget(endpoint="http://127.0.0.1:1", model_name="m")
    assert set(target.model_dump()) == {"kind", "endpoint", "model_name", "backend_class", "engine_params"}


def test_an_endpoint_is_identified_by_its_address() -> None:
    result = identity(run_spec(target=EndpointTarget(endpoint="http://127.0.0.1:1", model_name="m")))
    assert result["weights"] == {"endpoint": "http://127.0.0.1:1", "model_name": "m"}


def test_a_missing_side_is_absent() -> None:
    assert list(differences({"a": {"b": None}}, {"a": {}})) == [Difference(path="a.b", a=None, b=ABSENT)]
    assert list(differences(1, True)) == [Difference(path="", a=1, b=True)]


@given(JSON, JSON)
def test_values_have_differences_exactly_if_their_ids_differ(a: object, b: object) -> None:
    result = list(differences(a, b))
    assert bool(result) == (digest_of(a) != digest_of(b))


def test_the_cost_of_a_judge_does_not_change_its_evaluation_id_and_definition() -> None:
    priced = judge_metric(prices=Prices(per_hour=2.0))
    unpriced = judge_metric(unpriced="nobody wrote them")
    before = unpriced.model_copy(
        update={"params": {name: value for name, value in unpriced.params.items() if name != "unpriced"}}
    )
    assert identity(metric=priced) == identity(metric=unpriced) == identity(metric=before)
    assert definition_of(priced) == definition_of(unpriced) == definition_of(before)


def test_a_rented_machine_is_another_kind_than_the_one_that_asks_it() -> None:
    own = {"cpu_model": "a processor", "cpu_threads": 2, "devices": [{"kind": "gpu", "name": "L4"}]}
    rented = {**own, "rented": {"instance_type": "1x_H100", "accelerators": "H100:1"}}
    assert kind_of_machine(own) == "a processor, 2 threads, L4"
    assert kind_of_machine(rented) == "1x_H100 with H100:1, through a tunnel from a processor, 2 threads, L4"


def test_a_machine_whose_devices_are_declared_is_another_kind_of_machine() -> None:
    gpu = {"kind": "gpu", "name": "L4"}
    real = {"cpu_model": "a processor", "cpu_threads": 2, "devices": [gpu]}
    declared = {**real, "declared": True}
    assert kind_of_machine(declared) == f"a processor, 2 threads, L4, {ONLY_DECLARED}"
    assert kind_of_machine(declared) != kind_of_machine(real)
    assert (is_declared(declared), is_declared(real)) == (True, False)
    assert declared_devices(declared) == ["L4"]
    assert declared_devices(real) == []
    assert declared_devices({"declared": True}) == []
