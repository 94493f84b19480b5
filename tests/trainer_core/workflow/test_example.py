"""`ajet new workflow` writes what trains as it is."""

import subprocess
import sys
from pathlib import Path

from typer.testing import CliRunner

from trainer_core import cli
from trainer_core.workflow.workflow import load_workflow

LONGEST_AGENT = 25


def ajet(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "trainer_core.cli", *words]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, check=False)


def test_an_agent_with_its_config_is_written_and_can_be_trained(tmp_path: Path) -> None:
    made = ajet("new", "workflow", "mine", cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    assert "ajet --conf mine/config.yaml" in made.stdout
    agent = (tmp_path / "mine/agent.py").read_text()
    assert len([line for line in agent.splitlines() if line]) <= LONGEST_AGENT
    planned = ajet("--conf", "mine/config.yaml", "--dry-run", cwd=tmp_path)
    assert (planned.returncode, planned.stderr) == (0, "")
    assert "experiment_name: mine" in planned.stdout
    assert load_workflow(f"{tmp_path}/mine/agent.py->Agent").is_async


def test_what_is_there_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text("mine")
    done = CliRunner().invoke(cli._new, ["workflow", str(tmp_path)])
    assert done.exit_code == cli.BAD_CONFIG
    assert done.stderr.startswith(f"error: {tmp_path} is there already, and is left as it is.")
    assert [path.name for path in tmp_path.iterdir()] == ["agent.py"]
