#!/bin/sh
# Install the platform's own packages into the environment of images: the library, the plugins, and the named services.
# Write the list of all parts (an SBOM, CycloneDX), and compile what is not compiled. Usage: ours.sh NAME...
set -eu
environment=/opt/vlmhyperbench
chosen=
for wheel in /wheels/*.whl; do
    name=$(basename "$wheel"); name=${name%%-*}; name=${name#vlmhyperbench_}
    case $name in
        api | scheduler | inference_worker | eval_worker | reporter | gateway | loadgen | tiny_doc_vlm)
            case " $* " in *" $name "*) ;; *) continue ;; esac ;;
    esac
    chosen="$chosen $wheel"
done
# shellcheck disable=SC2086 - names of wheels have no spaces
/tools/bin/uv pip install --quiet --offline --link-mode copy --no-deps --python "$environment/bin/python" $chosen
/tools/bin/cyclonedx-py environment --output-reproducible --of JSON -o "$environment/sbom.json" "$environment/bin/python"
# A container could not keep what it compiles.
"$environment/bin/python" -m compileall -q -j 0 "$environment"/lib/python3*/site-packages || true
