"""Provenance is complete where it can be, says what is missing, and never fails."""

import hashlib
import json
import subprocess
import sys
from pathlib import Path

from harness.results.provenance import gather


def git(folder: Path, *words: str) -> None:
    identity = ["-c", "user.name=a", "-c", "user.email=a@b.c"]
    subprocess.run(["git", *identity, *words], cwd=folder, check=True, capture_output=True)


def test_code_packages_config_and_seeds(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    code = tmp_path / "train.py"
    code.write_text("print(1)\n")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "start")
    code.write_text("print(2)\nAPI_KEY = 'abcdef123456'\n")
    config = tmp_path / "config.yaml"
    config.write_text("ajet:\n  trainer_common:\n    seed: 3\n  data:\n    shuffle_seed: 1e1\n  x: 1\n")
    found = gather(str(tmp_path), sys.executable, str(config), "python train.py --token abcdef123456")
    json.dumps(found)
    assert len(found["git"]["commit"]) == 40 and found["git"]["dirty"]
    assert "+print(2)" in found["git"]["diff"]
    assert "abcdef123456" not in json.dumps(found)
    assert found["config"]["sha256"] == hashlib.sha256(config.read_bytes()).hexdigest()
    assert found["seeds"] == {"ajet.trainer_common.seed": 3, "ajet.data.shuffle_seed": 10.0}
    assert "numpy" in found["interpreter"]["packages"]
    assert found["interpreter"]["executable"] == sys.executable
    assert found["hardware"]["memory_bytes"] > 0 and found["hardware"]["cpu"]
    assert found["problems"] == []


def test_what_cannot_be_found_is_null_and_said(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("a: [1, 2\n")
    found = gather(tmp_path / "nowhere", tmp_path / "no-python", config, None)
    assert found["git"] is None and found["interpreter"] is None and found["command"] is None
    problems = [problem.split(" ")[0].rstrip(":") for problem in found["problems"]]
    assert problems == ["git", "packages", "config"]
