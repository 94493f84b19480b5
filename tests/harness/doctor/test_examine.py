"""All checks together: nothing wrong with the quickstart, and no check can stop or break the others."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from harness.blueprint import read
from harness.doctor import examine, of_language_model, outcome
from harness.doctor.examine import CHECKS, Check, run
from harness.doctor.findings import Finding, fine, problem, warning
from harness.doctor.launch import PlannedLaunch
from tests.harness.doctor.planning import launch, plan
from tests.model_server.server import ModelServer

ROOT = Path(__file__).parents[3]
QUICKSTART = ROOT / "blueprints/quickstart/blueprint.md"
FAMILIES = yaml.safe_load((ROOT / "harness/diagnosis/signatures/families.yaml").read_text())


def test_the_quickstart_is_healthy(tmp_path: Path) -> None:
    found = examine(read(QUICKSTART), tmp_path)
    assert [finding for finding in found if finding.severity != "ok"] == []
    assert {"interpreter", "modules", "dry run", "disk", "tmux"} <= {finding.check for finding in found}


def test_what_the_journal_keeps() -> None:
    taken = problem("taken", "choose", "port_in_use").fixed_by("free_port", port="80")
    found = [fine("good"), warning("odd", "look"), problem("bad", "fix it"), taken]
    kept = outcome(found)
    assert not kept.can_run
    assert kept.problems == ("bad — fix it", "taken — choose") and kept.warnings == ("odd — look",)
    causes = [(cause.family, cause.cause, cause.captures, cause.remedies) for cause in kept.causes]
    assert causes == [("", "bad", {}, ()), ("port_in_use", "taken", {"port": "80"}, ("free_port",))]
    assert outcome(found[:2]).can_run is True


def test_a_draft_is_what_is_examined(tmp_path: Path) -> None:
    config = (QUICKSTART.parent / "config.yaml").read_text()
    given = plan(tmp_path, None, config)
    assert outcome(examine(given, tmp_path)).can_run is True
    found = outcome(examine(given, tmp_path, config.replace("num_repeat: 16", "num_repeat: none")))
    assert found.can_run is False and "num_repeat" in found.problems[0]


def test_a_check_that_breaks_becomes_a_warning(tmp_path: Path) -> None:
    def breaks(planned: PlannedLaunch) -> Iterator[Finding]:
        yield fine("before")
        raise KeyError("x")

    found = run([Check("broken", breaks), Check("good", lambda planned: [fine("good")])], launch(tmp_path))
    assert [(item.check, item.severity) for item in found] == [("broken", "warning"), ("good", "ok")]
    assert "KeyError" in found[0].text


def test_a_check_that_takes_too_long_is_not_waited_for(tmp_path: Path) -> None:
    release = threading.Event()

    def waits(planned: PlannedLaunch) -> list[Finding]:
        release.wait(30)
        return []

    try:
        found = run([Check("slow", waits, limit_s=0.05)], launch(tmp_path))
    finally:
        release.set()
    assert [item.severity for item in found] == ["warning"] and "0.05 s" in found[0].text


def test_secrets_are_never_shown(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho 'bad HF_TOKEN=hf_abcdefghijklmnopqrstuvwxyz123456' >&2\nexit 1\n")
    python.chmod(0o755)
    found = examine(plan(tmp_path, "python t.py", venv_exe=python), tmp_path)
    seen = [finding for finding in found if finding.check == "interpreter"]
    assert seen[0].severity == "problem" and "bad" in seen[0].text
    assert not any("hf_abcdef" in str(finding) for finding in found)


@pytest.mark.parametrize(
    ("command", "config"),
    [
        ("", ""),
        ("python 'unclosed", "a: 1"),
        ("python - <<EOF\nprint(1)\nEOF", "a: 1"),
        ("python t.py config.yaml", "data: {train_files: [1, null]}\nmodel: {path: 3}\n"),
        ("python -m verl.trainer.main_ppo trainer.logger=1 data.train_files=[] trainer.nnodes=a", "a: 1"),
        ("python t.py config.yaml", "\0"),
    ],
)
def test_no_plan_breaks_a_check(tmp_path: Path, command: str, config: str) -> None:
    found = examine(plan(tmp_path, command, config), tmp_path)
    assert [finding.text for finding in found if " broke: " in finding.text] == []


def test_the_page_lists_every_check_with_the_families_it_predicts() -> None:
    text = (ROOT / "docs/doctor.md").read_text()
    rows = [line.split("|")[1:-1] for line in text.splitlines() if line.startswith("| ")][1:]
    listed = {row[0].strip(): row for row in rows}
    assert set(listed) == {check.name for check in CHECKS}
    for row in rows:
        for family in filter(None, (word.strip(" `") for word in row[2].split(","))):
            assert family in FAMILIES or family == "–"


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
