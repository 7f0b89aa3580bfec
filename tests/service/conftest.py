"""The models and the certificate that all tests of the service share."""

import shutil
import subprocess
from pathlib import Path

import pytest
import torch

from analysis.planted import planted_model
from integrations.ward import build_ward
from lmcells import Expander
from service.serving import PLANTED


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `model` and `inventory.csv`."""
    folder = tmp_path_factory.mktemp("service")
    build_ward(folder)
    return folder


@pytest.fixture(scope="session")
def expander(folder: Path) -> Expander:
    return Expander.from_pretrained(folder / "model", only_inventory=folder / "inventory.csv")


@pytest.fixture(scope="session")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Expander:
    """A model set by hand: "history" is near smoking under SOCIAL HISTORY, near mother under FAMILY HISTORY."""
    torch.manual_seed(0)
    return Expander(planted_model(tmp_path_factory.mktemp("planted")), PLANTED)


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1 that signs itself, and its key."""
    if not shutil.which("openssl"):
        pytest.skip("needs openssl to make a certificate")
    folder = tmp_path_factory.mktemp("tls")
    certificate, key = folder / "server.pem", folder / "server.key"
    name = ("-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1")
    make = ("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *name)
    subprocess.run([*make, "-out", certificate, "-keyout", key], check=True, capture_output=True)
    return certificate, key
