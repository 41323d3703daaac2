"""Pinned environments: one exact version of each requirement, and digests of targets without one stay as they were."""

import pytest
from pydantic import ValidationError

from vlmhyperbench.domain.digests import digest_of
from vlmhyperbench.domain.environments import ApptainerSpec, DockerSpec, RentedSpec, VirtualenvSpec
from vlmhyperbench.domain.specs import ModelTarget

TARGET = {"model": "m", "version": "1.0.0", "backend": "b", "backend_class": "b"}
MACHINE = {"cloud": "runpod", "accelerators": "L4:1", "max_hourly_cost_usd": 1, "requirements": ("a==1",)}


@pytest.mark.parametrize(
    "line",
    [
        "torch==2.13.0",
        "torch == 2.13.0+cpu",
        "vllm[audio,video]==0.32.0",
        "a==1!2.0.post1",
        "tomli==2.0 ; python_version < '3.11'",
    ],
)
def test_a_requirement_is_one_exact_version(line):
    assert VirtualenvSpec(requirements=(line,)).requirements == (line,)


@pytest.mark.parametrize(
    "line",
    [
        *("torch", "torch>=2", "torch==2.*", "torch~=2.0", "torch===", "==1.0", ""),
        *("--index-url http://host", "-r file.txt", "torch==1.0 --hash=sha256:00", "torch==1.0\n-r file.txt"),
        *("a @ http://host/a.whl", "./folder", "-e .", "torch==1.0;a;b"),
    ],
)
def test_anything_else_is_refused_with_a_cure(line):
    with pytest.raises(ValidationError) as refused:
        VirtualenvSpec(requirements=(line,))
    problem = refused.value.errors()[0]
    assert problem["loc"] == ("requirements", 0)
    assert "NAME==VERSION" in problem["ctx"]["error"].cure


def test_an_override_may_have_a_marker_only():
    lines = ("torchvision ; sys_platform == 'never'", "numpy==2.2.0")
    assert VirtualenvSpec(requirements=("a==1",), overrides=lines).overrides == lines
    with pytest.raises(ValidationError):
        VirtualenvSpec(requirements=("a==1",), overrides=("numpy>=2",))


@pytest.mark.parametrize(
    ("kind", "fields", "cure"),
    [
        (VirtualenvSpec, {"manager": "uv", "conda": ("a==1",)}, "manager: conda"),
        (VirtualenvSpec, {"manager": "conda", "channels": ("http://host/a",)}, "CONDA_CHANNEL_ALIAS"),
        (DockerSpec, {"image": "engine:latest"}, "sha256:DIGEST"),
        (DockerSpec, {"image": "sha256:" + "0" * 64, "pull": "missing"}, "NAME@sha256:DIGEST"),
        (ApptainerSpec, {}, "file with its sha256"),
        (ApptainerSpec, {"file": "/a.sif"}, "sha256sum"),
        (ApptainerSpec, {"file": "/a.sif", "sha256": "0" * 64, "definition": "Bootstrap: x"}, "or definition"),
        (RentedSpec, {**MACHINE, "accelerators": "L4"}, "NAME:NUMBER"),
    ],
)
def test_what_cannot_be_built_is_refused_with_a_cure(kind, fields, cure):
    with pytest.raises(ValidationError) as refused:
        kind(**fields)
    assert cure in refused.value.errors()[0]["ctx"]["error"].cure


def test_each_kind_of_environment_is_read_again_as_it_was():
    for spec in (
        VirtualenvSpec(manager="conda", conda=("a==1",), channels=("robostack", "conda-forge"), python="3.12"),
        DockerSpec(image="engine@sha256:" + "0" * 64, pull="missing"),
        ApptainerSpec(file="/a.sif", sha256="0" * 64),
        RentedSpec(**MACHINE),
    ):
        target = ModelTarget(**TARGET, environment=spec)
        assert ModelTarget.model_validate_json(target.model_dump_json()).environment == spec


@pytest.mark.parametrize("python", ["3", "python3.12", "3.12;id", "/bin/sh", "4.1"])
def test_python_is_a_version_and_no_path(python):
    with pytest.raises(ValidationError):
        VirtualenvSpec(requirements=("a==1",), python=python)


@pytest.mark.parametrize("line", ["ffmpeg==7.1.0", "cuda-nvcc==12.4.131=h5b7a09c_1", "_openmp_mutex==4.5=2_gnu"])
def test_a_conda_package_is_one_exact_version_and_may_be_one_build(line):
    assert VirtualenvSpec(requirements=("a==1",), manager="conda", conda=(line,)).conda == (line,)


@pytest.mark.parametrize(
    "line", ["ffmpeg", "ffmpeg=7", "ffmpeg>=7", "ffmpeg==7.*", "-c x", "here::a==1", "a==1=h*", "a==1 b"]
)
def test_another_conda_package_is_refused_with_a_cure(line):
    with pytest.raises(ValidationError) as refused:
        VirtualenvSpec(requirements=("a==1",), manager="conda", conda=(line,))
    problem = refused.value.errors()[0]
    assert problem["loc"] == ("conda", 0)
    assert "NAME==VERSION=BUILD" in problem["ctx"]["error"].cure


def test_an_environment_without_conda_has_the_digest_that_it_always_had():
    spec = VirtualenvSpec(requirements=("a==1",))
    assert set(spec.model_dump()) == {"kind", "python", "requirements", "overrides", "manager"}


def test_a_target_without_an_environment_has_the_digest_that_it_always_had():
    assert "environment" not in ModelTarget(**TARGET).model_dump()
    assert digest_of(ModelTarget(**TARGET)) == "88ee9d827c843e9df2d6ce7eeb11ea5e2317035aee4b7164560ccc76dfa1eea4"
    spec = VirtualenvSpec(requirements=("a==1",))
    target = ModelTarget(**TARGET, environment=spec)
    assert digest_of(target) != digest_of(ModelTarget(**TARGET))
    assert ModelTarget.model_validate_json(target.model_dump_json()) == target
