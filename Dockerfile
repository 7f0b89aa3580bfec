# The service of lmcells: docker build -t lmcells . && docker run --read-only --tmpfs /tmp -p 127.0.0.1:8000:8000 lmcells
# No notes, no corpora and no models of your own go in; mount a model folder and name it:
#   docker run --read-only --tmpfs /tmp -p 127.0.0.1:8000:8000 -v "$PWD/model:/model:ro" lmcells --model /model
# To pin the base by its digest: --build-arg PYTHON=python@sha256:...
ARG PYTHON=python:3.11.13-slim-bookworm

FROM ${PYTHON} AS build
ENV PIP_NO_CACHE_DIR=1 \
    PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_CONSTRAINT=/build/constraints.txt
WORKDIR /build
RUN python -m venv /opt/lmcells
COPY constraints.txt deploy/requirements.txt ./
RUN /opt/lmcells/bin/pip install --only-binary :all: --requirement requirements.txt
COPY pyproject.toml README.md LICENSE ./
COPY src ./src
RUN /opt/lmcells/bin/pip install --no-deps . \
    && /opt/lmcells/bin/pip uninstall --yes pip setuptools \
    && python -m compileall -q /opt/lmcells/lib

FROM ${PYTHON}
LABEL org.opencontainers.image.title="lmcells" \
      org.opencontainers.image.description="Zero-shot clinical acronym expansion over HTTP" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /opt/lmcells /opt/lmcells
ENV PATH=/opt/lmcells/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    OMP_NUM_THREADS=1 \
    LMCELLS_PORT=8000
WORKDIR /
USER 10001:10001
EXPOSE 8000
STOPSIGNAL SIGTERM

# It asks on the port that LMCELLS_PORT names, as the service does.
HEALTHCHECK --interval=30s --timeout=10s --start-period=30s --retries=3 CMD ["lmcells", "serve", "--check"]

# Inside of a container all addresses are needed; publish the port on 127.0.0.1, or set a token.
ENTRYPOINT ["lmcells", "serve", "--host", "0.0.0.0"]
