# An image in which an engine runs, from a list of pinned packages (docs/environments.md says how it is used):
#   docker build -f containers/engine.Dockerfile --build-arg ENGINE=transformers -t engine-transformers requirements/engines
# Wheels that no index has, such as torch for a processor, lie beside the list. The platform is not in the image: what an
# adapter adds to its engine is mounted when a model is loaded.
ARG BASE_IMAGE=python:3.11-slim-bookworm
FROM ${BASE_IMAGE}
# Libraries of the system that packages expect: llama.cpp that of OpenMP.
ARG LIBRARIES=libgomp1
RUN apt-get update -qq && apt-get install -y -qq --no-install-recommends ${LIBRARIES} && rm -rf /var/lib/apt/lists/*
ARG ENGINE=transformers
RUN python3 -m venv /opt/engine
RUN --mount=type=bind,target=/context \
    /opt/engine/bin/python -m pip install --no-cache-dir --require-hashes --find-links /context -r /context/${ENGINE}.txt
ENV PATH=/opt/engine/bin:$PATH
USER 65534:65534
