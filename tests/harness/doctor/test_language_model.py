"""Whether the language model that harness.toml names answers."""

from pathlib import Path

import pytest

from harness.doctor import of_language_model
from tests.model_server.server import ModelServer


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    return tmp_path


def found(home: Path, model: str) -> tuple[str, str]:
    (home / "harness.toml").write_text(f'[llm]\nmodel = "{model}"\n')
    (finding,) = of_language_model(home)
    return finding.severity, finding.text


def test_it_is_asked_for_a_word(home: Path) -> None:
    assert list(of_language_model(home)) == []
    with ModelServer([]) as server:
        assert found(home, f"openai:m@{server.openai_url}")[0] == "ok"
        assert server.trials == 1
    severity, text = found(home, "openai:m@http://127.0.0.1:9/v1")
    assert severity == "warning" and "cannot be reached" in text
    assert "needs a key" in found(home, "openai:m")[1]
