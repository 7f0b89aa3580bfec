"""How every command refuses bad input."""

import pytest

from lmcells.cli.main import BAD_INPUT


def assert_refused(code: int, capsys: pytest.CaptureFixture[str], *, command: str, message: str) -> None:
    """Exit code 2 and one line that names the command and says what is wrong."""
    assert code == BAD_INPUT
    error = capsys.readouterr().err
    assert error.startswith(f"lmcells {command}: ")
    assert message in error
    assert error.count("\n") == 1
