"""Backbone `debug`: calls on the screen, a debugger in the judge, nothing on the disk."""

import contextlib
import json
import os
import pty
import select
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.trainer_core.outside_model.fake import said, serving
from trainer_core.backbone.main import train
from trainer_core.config.load import resolved_yaml
from trainer_core.config.schema import Config

TinyConfig = Callable[..., Config]
LONGEST_WAIT_S = 120.0


def debugging(config: Config, judge: Path | None = None, **debug: int) -> Config:
    tree: dict[str, Any] = config.model_dump()
    tree["ajet"] |= {"backbone": "debug", "debug": debug}
    if judge is not None:
        tree["ajet"]["task_judge"] |= {
            "judge_type": "customized_protocol",
            "judge_protocol": f"{judge}->Mine",
        }
    return Config.model_validate(tree)


def judge_that(path: Path, does: str) -> Path:
    path.write_text(f"class Mine:\n    def compute_reward(self, task, output):\n        {does}\n")
    return path


def test_every_call_is_shown_twice_the_same_and_nothing_is_written(
    tiny_config: TinyConfig, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    config = debugging(tiny_config(), debug_first_n_tasks=3)
    assert train(config) == 0
    shown = capfd.readouterr().out
    assert shown.count("\n=== task sort_digits-") == shown.count("--- prompt, 6 tokens\n<|user|>") == 3
    assert shown.count("--- answer 4, ") == shown.count("--- answer 4: reward ") == 3
    assert "logprob mean -" in shown
    assert train(config) == 0
    assert capfd.readouterr().out == shown
    assert train(debugging(tiny_config(), debug_first_n_tasks=3, debug_vllm_seed=1)) == 0
    assert capfd.readouterr().out != shown
    assert not (tmp_path / "run").exists()


def test_tasks_that_a_model_writes_are_written_before_they_are_shown(
    tiny_config: TinyConfig,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "notes.md").write_text("Ada was born in 1815.")
    generation = {
        "document_reader": {"document_path": [str(tmp_path / "notes.md")]},
        "task_num": 1,
        "deduplication_filter": {"enabled": False},
    }
    reader = {"type": "data_generation", "data_generation": generation}
    reply = said(json.dumps({"tasks": [{"question": "Born?", "answer": "1815"}]}))
    with serving(lambda body, key: reply) as fake:
        monkeypatch.setenv("OPENAI_BASE_URL", fake.base_url)
        assert train(debugging(tiny_config(task_reader=reader))) == 0
    shown = capfd.readouterr().out
    assert shown.startswith("[ajet] qwen-long writes 1 questions from piece 1 of ")
    assert "--- prompt, 8 tokens\n<|user|>Born?<|end|>" in shown


def test_what_the_judge_raises_is_shown_with_its_line(
    tiny_config: TinyConfig, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    judge = judge_that(tmp_path / "judge.py", "return 1 / (len(task.answer) - 3), None")
    assert train(debugging(tiny_config(), judge)) == 1
    error = capfd.readouterr().err
    assert f'File "{judge}", line 3, in compute_reward' in error
    assert error.splitlines()[-1].startswith("error: judge Mine failed on task ")


class Terminal:
    """The trainer under a terminal of its own."""

    def __init__(self, config: Path) -> None:
        self._seen = b""
        self.pid, self._terminal = pty.fork()
        if self.pid == 0:
            os.execv(sys.executable, [sys.executable, "-m", "trainer_core.cli", "--conf", str(config)])

    def until(self, text: str, *, press: str = "") -> str:
        """What came up to and with `text`. `press`: typed whenever nothing comes for a second."""
        ends = time.monotonic() + LONGEST_WAIT_S
        while text.encode() not in self._seen:
            assert time.monotonic() < ends, f"no {text!r} in:\n{self._seen.decode()}"
            if select.select([self._terminal], [], [], 1.0)[0]:
                self._seen += os.read(self._terminal, 65536)
            elif press:
                self.type(press)
        before, found, self._seen = self._seen.partition(text.encode())
        return (before + found).decode()

    def type(self, line: str) -> None:
        os.write(self._terminal, line.encode())

    def end(self) -> int:
        """Its exit status; what it still prints is read."""
        with contextlib.suppress(OSError):  # Linux's way to say that the other end is closed
            while os.read(self._terminal, 65536):
                pass
        os.close(self._terminal)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def test_a_breakpoint_in_a_judge_is_at_home(tiny_config: TinyConfig, tmp_path: Path) -> None:
    judge = judge_that(tmp_path / "judge.py", "breakpoint(); return 7.0, None")
    path = tmp_path / "config.yaml"
    path.write_text(resolved_yaml(debugging(tiny_config(), judge)))
    terminal = Terminal(path)
    assert "--- answer 4, " in terminal.until("(Pdb) ")
    terminal.type("p 'said', task.main_query, __import__('threading').current_thread().name\n")
    assert "MainThread" in terminal.until("(Pdb) ")
    terminal.type("\x03")
    terminal.until("(Pdb) ", press="\x03")  # clears the line; Python can miss one as it begins to read
    for _ in range(3):
        terminal.type("continue\n")
        terminal.until("(Pdb) ")
    terminal.type("continue\n")
    shown = terminal.until("--- answer 4: reward 7, solved")
    terminal.until("(Pdb) ")  # of the second task
    terminal.type("quit\n")
    terminal.until("[ajet] left the debugger")
    assert terminal.end() == 130
    assert "answer 1: reward 7, solved" in shown
