"""What deploys the service, as far as it can be checked without a daemon or a cluster."""

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from lmcells.cli.main import build_parser
from service.serving import served

REPOSITORY = Path(__file__).parents[2]
DOCKERFILE = (REPOSITORY / "Dockerfile").read_text()
COMPOSE = yaml.safe_load((REPOSITORY / "compose.yaml").read_text())
MANIFESTS = {
    each["kind"]: each for each in yaml.safe_load_all((REPOSITORY / "deploy/kubernetes.yaml").read_text())
}
PINNED = (REPOSITORY / "deploy/requirements.txt").read_text()


@pytest.mark.parametrize(
    "command",
    [
        "hadolint Dockerfile",
        "yamllint --strict compose.yaml deploy .github mkdocs.yml",
        "kubernetes-validate --strict deploy/kubernetes.yaml",
    ],
)
def test_linters_find_nothing(command: str) -> None:
    name, *arguments = command.split()
    program = Path(sys.executable).with_name(name)
    if not program.exists() and not shutil.which(name):
        pytest.skip(f"needs {name}")
    done = subprocess.run(
        [str(program) if program.exists() else name, *arguments],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_image_is_pinned_built_in_stages_and_not_run_by_root() -> None:
    assert re.search(r"^ARG PYTHON=python:\d+\.\d+\.\d+-slim-\w+$", DOCKERFILE, re.MULTILINE)
    assert DOCKERFILE.count("FROM ${PYTHON}") == 2
    assert re.search(r"^USER 10001:10001$", DOCKERFILE, re.MULTILINE)
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", DOCKERFILE, re.MULTILINE)
    for path in " ".join(copied).split():
        assert (REPOSITORY / path).exists()
        assert f"!{path}\n" in (REPOSITORY / ".dockerignore").read_text()


def test_what_the_service_needs_is_pinned_as_elsewhere() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    needed = [*project["dependencies"], *project["optional-dependencies"]["serve"]]
    pinned = dict(line.split("==") for line in PINNED.splitlines() if not line.startswith("#"))
    for requirement in needed:
        assert re.split("[<>=; ]", requirement)[0] in pinned
    for line in (REPOSITORY / "constraints.txt").read_text().splitlines():
        name, _, version = line.partition("==")
        assert pinned.get(name, version) == version


def test_health_checks_follow_the_port(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert 'CMD ["lmcells", "serve", "--check"]' in DOCKERFILE
    assert "LMCELLS_PORT=8000" in DOCKERFILE
    monkeypatch.setenv("LMCELLS_PORT", "8123")
    assert build_parser().parse_args(["serve"]).port == 8123
    command = [sys.executable, "-m", "lmcells", "serve", "--check"]
    with served(folder) as server:
        monkeypatch.setenv("LMCELLS_PORT", str(server.port))
        assert subprocess.run(command, check=False).returncode == 0
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 2
    assert (
        done.stderr == f"lmcells serve: no service on 127.0.0.1 port {server.port} is ready. See its log.\n"
    )


def test_what_is_started_are_options_that_exist() -> None:
    (pod,) = MANIFESTS["Deployment"]["spec"]["template"]["spec"]["containers"]
    entry = re.search(r'^ENTRYPOINT \["lmcells", "serve", (.+)\]$', DOCKERFILE, re.MULTILINE)
    assert entry
    given = [each.strip(' "') for each in entry[1].split(",")]
    for arguments in (COMPOSE["services"]["lmcells"]["command"], pod["args"]):
        assert build_parser().parse_args(["serve", *given, *arguments]).token_file


def test_a_compose_service_can_write_nothing_and_is_local() -> None:
    service = COMPOSE["services"]["lmcells"]
    assert (service["read_only"], service["tmpfs"], service["cap_drop"]) == (True, ["/tmp"], ["ALL"])
    assert all(port.startswith("127.0.0.1:") for port in service["ports"])


def test_a_pod_is_probed_on_paths_that_exist_and_can_write_nothing() -> None:
    spec: dict[str, Any] = MANIFESTS["Deployment"]["spec"]["template"]["spec"]
    (pod,) = spec["containers"]
    paths = {
        name: pod[name]["httpGet"]["path"] for name in ("startupProbe", "readinessProbe", "livenessProbe")
    }
    assert set(paths.values()) == {"/readyz", "/livez"}
    assert paths["livenessProbe"] == "/livez"
    assert {"name": "LMCELLS_PORT", "value": str(pod["ports"][0]["containerPort"])} in pod["env"]
    assert spec["enableServiceLinks"] is False
    assert spec["securityContext"]["runAsNonRoot"]
    assert pod["securityContext"]["readOnlyRootFilesystem"]
    assert (
        MANIFESTS["Service"]["spec"]["selector"] == MANIFESTS["Deployment"]["spec"]["selector"]["matchLabels"]
    )
