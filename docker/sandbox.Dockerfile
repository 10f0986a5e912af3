# What experiments run in: torch and what training scripts find beside it. None of our services, no
# credentials. Each experiment gets a fresh container of it, its root read-only, without a network.
# docker/build.sh builds it; by hand, for the CPU:
#   docker build -f docker/sandbox.Dockerfile -t overnight-sandbox:cpu .
# and for NVIDIA GPUs (several GB; not run on a GPU yet; the packages are for torch.compile):
#   docker build -f docker/sandbox.Dockerfile --build-arg CUDA=1 \
#     --build-arg DEBIAN_PACKAGES="gcc g++ libc6-dev" -t overnight-sandbox:cuda .
# A pip.conf given as the secret `pip` is read and stays out of the image: --secret id=pip,src=pip.conf
ARG PYTHON_IMAGE=python:3.11-slim-bookworm

FROM ${PYTHON_IMAGE} AS packages
RUN python -m venv /opt/venv
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore
COPY docker/sandbox.txt /tmp/sandbox.txt
RUN --mount=type=secret,id=pip,target=/etc/pip.conf \
    /opt/venv/bin/pip install -q --require-hashes -r /tmp/sandbox.txt
ARG TORCH_SPEC=torch==2.13.0
ARG CUDA=
# PyTorch's public index of CPU builds; a wheel in a find-links folder goes before it.
ARG TORCH_CPU_INDEX=https://download.pytorch.org/whl/cpu
ARG PIP_FIND_LINKS=
RUN --mount=type=secret,id=pip,target=/etc/pip.conf \
    if [ -n "$CUDA" ]; then /opt/venv/bin/pip install -q "$TORCH_SPEC"; \
    else /opt/venv/bin/pip install -q --no-deps --no-index "$TORCH_SPEC" 2>/dev/null \
        || /opt/venv/bin/pip install -q --index-url "$TORCH_CPU_INDEX" "$TORCH_SPEC"; fi \
    && /opt/venv/bin/python -c 'import numpy, torch'

FROM ${PYTHON_IMAGE}
ARG DEBIAN_PACKAGES=
RUN if [ -n "$DEBIAN_PACKAGES" ]; then apt-get update \
        && apt-get install -y --no-install-recommends $DEBIAN_PACKAGES \
        && rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/log/*; fi \
    # Nobody becomes root here, and a tmpfs over /tmp takes its mode from the folder.
    && find / -xdev -type f -perm /6000 -exec chmod a-s {} + \
    && chmod 1777 /tmp
COPY --from=packages /opt/venv /opt/venv
ENV PATH=/opt/venv/bin:/usr/local/bin:/usr/bin:/bin \
    NVIDIA_DRIVER_CAPABILITIES=compute,utility
LABEL org.opencontainers.image.title="overnight sandbox"
WORKDIR /work
USER 65534:65534
CMD ["python"]
