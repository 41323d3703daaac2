#!/usr/bin/env bash
# Import each service's main in an environment that holds only what the service itself declares.
# Usage: isolated_imports.sh UV PYTHON
set -euo pipefail
uv=$1 python=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
check() {
    member=$1 module=$2
    env="$folder/env"
    rm -rf "$env"
    "$uv" venv --quiet --python "$python" "$env"
    "$uv" pip install --quiet --python "$env/bin/python" --constraint requirements/dev.txt "./$member"
    (cd "$folder" && env -i PATH="$PATH" HOME="$folder" "$env/bin/python" -W error -c "
import sys, $module
heavy = sorted({'torch', 'transformers', 'xllamacpp', 'vllm', 'sglang'} & set(sys.modules))
sys.exit(f'$module imports {heavy}' if heavy else 0)")
    echo "$module: ok"
}
for service in api scheduler inference_worker eval_worker reporter; do
    check "services/$service" "vlmhyperbench_$service.main"
done
check shared/gateway vlmhyperbench_gateway.app
check shared/loadgen vlmhyperbench_loadgen.__main__
