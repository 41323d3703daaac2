"""A model's files are found and verified before anything loads them."""

import hashlib

import pytest
import vlmhyperbench_tiny_doc_vlm as tiny
from vlmhyperbench.domain.specs import ModelFile
from vlmhyperbench_inference_worker.models import locate
from vlmhyperbench_sdk.errors import InvalidInput, NotFound

SHA = hashlib.sha256(b"weights").hexdigest()


def test_a_file_with_its_pinned_hash_is_located(tmp_path):
    path = tmp_path / "w.gguf"
    path.write_bytes(b"weights")
    assert locate([ModelFile(role="weights", location=str(path), sha256=SHA)]) == {"weights": str(path)}


def test_a_changed_file_is_refused_though_it_was_verified_before(tmp_path):
    path = tmp_path / "w.gguf"
    path.write_bytes(b"weights")
    file = ModelFile(role="weights", location=str(path), sha256=SHA)
    locate([file])
    path.write_bytes(b"weights, changed")
    with pytest.raises(InvalidInput, match=SHA[:16]):
        locate([file])


def test_a_missing_file_names_its_path(tmp_path):
    with pytest.raises(NotFound, match=r"nowhere\.gguf"):
        locate([ModelFile(role="weights", location=str(tmp_path / "nowhere.gguf"), sha256=SHA)])


def test_a_file_of_a_package_is_found_where_the_package_is_installed():
    name = "tiny-doc-vlm-q4_0.gguf"
    file = ModelFile(
        role="weights", location=f"package:vlmhyperbench-tiny-doc-vlm/files/{name}", sha256=tiny.sha256(name)
    )
    assert locate([file]) == {"weights": str(tiny.path(name))}


def test_a_missing_package_says_what_to_install():
    with pytest.raises(NotFound, match="no-such-model"):
        locate([ModelFile(role="weights", location="package:no-such-model/x.gguf", sha256=SHA)])
