"""The skills are well formed, and their scripts work against a swarm server."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from benchmarks.swarm import start_server
from harness.machine.ports import a_free_port

ROOT = Path(__file__).parents[3]
SKILLS = sorted(path.parent for path in (ROOT / "skills").glob("*/SKILL.md"))


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    port = a_free_port()
    process = start_server(tmp_path, port)
    yield f"http://127.0.0.1:{port}"
    process.send_signal(signal.SIGTERM)
    process.wait()


@pytest.mark.parametrize("skill", SKILLS, ids=lambda skill: skill.name)
def test_what_agents_read_of_a_skill(skill: Path) -> None:
    _, head, body = (skill / "SKILL.md").read_text(encoding="utf-8").split("---\n", 2)
    told = YAML(typ="safe").load(head)
    assert told["name"] == skill.name and re.fullmatch(r"[a-z0-9-]{1,64}", skill.name)
    assert 20 < len(told["description"]) <= 1024
    assert len(body.splitlines()) < 500
    for script in re.findall(r"scripts/(\w+\.py)", body):
        assert (skill / "scripts" / script).is_file()


async def _run(folder: Path, script: str, *arguments: str) -> str:
    """What a skill's script prints.

    Raises:
        AssertionError: it failed.
    """
    path = next((ROOT / "skills").glob(f"*/scripts/{script}"))
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, str(path), *arguments),
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    printed = (await process.communicate())[0].decode()
    assert process.returncode == 0, printed
    return printed


async def test_a_black_box_is_tried_and_trained(server: str, tmp_path: Path) -> None:
    dry = await _run(tmp_path, "train.py", "--url", server, "--episodes", "1", "--dry")
    assert len(re.findall(r"reward 0\.\d+", dry)) == 1
    printed = await _run(tmp_path, "train.py", "--url", server, "--episodes", "8")
    assert len(re.findall(r"^reward", printed, re.M)) == 8


async def test_a_client_trains_and_evaluates(server: str, tmp_path: Path) -> None:
    printed = await _run(tmp_path, "client.py", "--url", server, "--steps", "2")
    assert "step 0: [0.0, 0.0]" in printed


async def test_the_smaller_scripts(tmp_path: Path) -> None:
    assert "train_batch_size: 8" in await _run(tmp_path, "show_config.py")
    scores = await _run(tmp_path, "reward.py")
    assert scores.startswith("[0.97")
