# The service of lmcells: docker build -t lmcells . && docker run -p 127.0.0.1:8000:8000 lmcells
# No notes, no corpora and no models of your own go in; mount a model folder and name it:
#   docker run -p 127.0.0.1:8000:8000 -v "$PWD/model:/model:ro" lmcells --model /model
FROM python:3.11-slim

ENV PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    PIP_NO_CACHE_DIR=1 \
    PIP_DISABLE_PIP_VERSION_CHECK=1

WORKDIR /build
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY src ./src
RUN pip install --constraint constraints.txt '.[serve]' \
    && rm -rf /build \
    && useradd --system --uid 10001 --no-create-home --shell /usr/sbin/nologin lmcells

WORKDIR /
USER 10001
EXPOSE 8000
STOPSIGNAL SIGTERM

HEALTHCHECK --interval=30s --timeout=5s --start-period=20s --retries=3 \
    CMD ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:8000/health', timeout=4)"]

# Inside of a container all addresses are needed; publish the port on 127.0.0.1, or set LMCELLS_TOKEN.
ENTRYPOINT ["lmcells", "serve", "--host", "0.0.0.0", "--port", "8000"]
