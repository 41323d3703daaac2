"""Packages of others: their origin in one line, and what of them determines the code."""

from __future__ import annotations

from vlmhyperbench.domain.environments import VirtualenvSpec
from vlmhyperbench.domain.identity import definition_of
from vlmhyperbench.domain.packages import GitPackage, IndexPackage, LocalPackage, identity_of
from vlmhyperbench.domain.specs import EndpointTarget, MetricSpec, ModelTarget

COMMIT, CONTENT = "a" * 40, "b" * 64
GIT = GitPackage(name="mine", url="https://host/mine", commit=COMMIT, subdirectory="package", token_secret="TOKEN")
LOCAL = LocalPackage(name="mine", path="/src/mine", sha256=CONTENT, extras=("gpu",))
INDEX = IndexPackage(name="mine", version="1.2")


def test_an_origin_names_commit_content_or_version() -> None:
    assert GIT.origin == f"git+https://host/mine@{COMMIT}#subdirectory=package"
    assert LOCAL.origin == f"/src/mine sha256:{CONTENT}"
    assert INDEX.origin == "mine==1.2"
    assert (LOCAL.requirement, INDEX.requirement) == ("mine[gpu]", "mine")


def test_how_a_package_is_reached_is_not_its_identity() -> None:
    assert identity_of(GIT) == identity_of(GIT.model_copy(update={"token_secret": None}))
    assert identity_of(GIT) != identity_of(GIT.model_copy(update={"commit": "c" * 40}))
    assert identity_of(LOCAL) == identity_of(LOCAL.model_copy(update={"path": "/elsewhere", "extras": ()}))
    assert identity_of(LOCAL) != identity_of(LOCAL.model_copy(update={"sha256": "d" * 64}))
    assert identity_of(INDEX) != identity_of(INDEX.model_copy(update={"version": "1.3"}))


def test_a_metric_of_another_commit_is_another_definition() -> None:
    def defined(package: GitPackage) -> str:
        environment = VirtualenvSpec(packages=(package,))
        return definition_of(
            MetricSpec(name="m", profile="p", version="1", class_path="mine:M", environment=environment)
        )

    assert defined(GIT) != defined(GIT.model_copy(update={"commit": "c" * 40}))
    assert defined(GIT) == defined(GIT.model_copy(update={"token_secret": None}))


def test_a_target_has_each_package_once_and_says_where_its_adapter_is() -> None:
    plain = ModelTarget(model="m", version="1.0.0", backend="b", backend_class="b")
    both = VirtualenvSpec(packages=(GIT, INDEX))
    target = plain.model_copy(update={"adapter_environment": both, "environment": VirtualenvSpec(packages=(GIT,))})
    assert target.packages == (GIT, INDEX)
    assert (target.brings_its_adapter, target.is_apart) == (True, True)
    endpoint = EndpointTarget(endpoint="http://host/v1", model_name="m")
    assert endpoint.brings_its_adapter is False
    assert (plain.packages, plain.brings_its_adapter, plain.is_apart) == ((), False, False)
