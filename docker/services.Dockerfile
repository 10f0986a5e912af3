# Every service and verb by command: docker run overnight-services orchestrator|recorder|runner|... No
# torch: experiments run in containers of sandbox.Dockerfile. Packages first, code last: a change of code
# rebuilds none of them. docker/build.sh builds it; by hand:
#   docker build -f docker/services.Dockerfile -t overnight-services:latest .
ARG PYTHON_IMAGE=python:3.11-slim-bookworm

FROM ${PYTHON_IMAGE} AS packages
RUN python -m venv /opt/venv
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore
COPY docker/services.txt /tmp/services.txt
RUN --mount=type=secret,id=pip,target=/etc/pip.conf \
    /opt/venv/bin/pip install -q --require-hashes -r /tmp/services.txt

FROM packages AS wheel
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY harness harness
COPY skills skills
COPY services services
RUN /opt/venv/bin/pip wheel -q --no-deps --no-index --no-build-isolation -w /wheel .

FROM ${PYTHON_IMAGE}
RUN apt-get update && apt-get install -y --no-install-recommends git \
    && rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/log/*
COPY --from=packages /opt/venv /opt/venv
COPY docker/healthcheck.py /usr/local/lib/overnight/healthcheck.py
COPY --from=wheel /wheel /tmp/wheel
RUN /opt/venv/bin/pip install -q --no-cache-dir --no-deps --no-index --root-user-action=ignore \
        --disable-pip-version-check /tmp/wheel/*.whl && rm -r /tmp/wheel
# Any user may run it, so nothing has a home here. Prometheus asks at these ports, from beside.
ENV PATH=/opt/venv/bin:/usr/local/bin:/usr/bin:/bin \
    HOME=/tmp PYTHONUNBUFFERED=1 \
    OVERNIGHT_ORCHESTRATOR_METRICS_PORT=9101 OVERNIGHT_ORCHESTRATOR_METRICS_HOST=0.0.0.0 \
    OVERNIGHT_RECORDER_METRICS_PORT=9102 OVERNIGHT_RECORDER_METRICS_HOST=0.0.0.0 \
    OVERNIGHT_RUNNER_METRICS_PORT=9103 OVERNIGHT_RUNNER_METRICS_HOST=0.0.0.0 \
    OVERNIGHT_SPAWNER_METRICS_PORT=9104 OVERNIGHT_SPAWNER_METRICS_HOST=0.0.0.0
LABEL org.opencontainers.image.title="overnight services"
USER 65534:65534
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 \
    CMD ["python", "-S", "/usr/local/lib/overnight/healthcheck.py"]
ENTRYPOINT ["overnight"]
CMD ["--help"]
