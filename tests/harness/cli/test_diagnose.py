"""`harness diagnose`: what a person and a script get, and every way of naming what to look at."""

import asyncio
import json
from functools import partial
from pathlib import Path

import pytest

from harness.agent import loop
from harness.agent.playbook import Playbook
from tests.harness.agent.world import FakeExecutor, World, done, new_experiment
from tests.harness.cli.typed import typed

OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.02 GiB. GPU 0 has 0.6 GiB free."
LOG = f"""step:1 - actor/kl_loss:0.1
Traceback (most recent call last):
  File "/exp/train.py", line 9, in <module>
    loss.backward()
{OOM}
"""


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    file = tmp_path / "train.log"
    file.write_text(LOG)
    return file


diagnose = partial(typed, "diagnose")


def test_a_script_gets_one_json_object_and_a_person_whole_lines_that_grep_finds(log: Path) -> None:
    status, out, _ = diagnose(log, "--json")
    told = json.loads(out)
    assert status == 0
    fields = {"family", "signature", "cause", "evidence", "transient", "confidence", "only_nominated"}
    assert set(told) == fields | {"remedies", "also"}
    assert told["family"] == "gpu_oom" and "1.02 GiB" in told["cause"]
    assert {"line": 5, "text": OOM} in told["evidence"]
    assert all(set(each) == {"kind", "change", "why"} for each in told["remedies"])
    _, out, _ = diagnose(log)
    assert out.startswith("gpu_oom (") and f"5  {OOM}" in out
    status, out, _ = diagnose("--families")
    assert status == 0 and "gpu_oom: " in out


def test_with_a_config_the_change_is_computed(log: Path, tmp_path: Path) -> None:
    config = tmp_path / "c.yaml"
    config.write_text("per_device_train_batch_size: 8\ngradient_accumulation_steps: 2\n")
    _, out, _ = diagnose(log, "--config", config, "--json")
    changes = " ".join(each["change"] for each in json.loads(out)["remedies"])
    assert "per_device_train_batch_size: 8 → 4" in changes
    assert "gradient_accumulation_steps: 2 → 4" in changes


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (None, "No such file"),
        (b"a: [1\n", "can be read"),
        (b"- 1\n", "mapping"),
        (b"\x7fELF\x02\x01\x00\xff", "can be read"),
        (b"a: \x00\n", "can be read"),
    ],
)
def test_a_config_that_cannot_be_read(log: Path, tmp_path: Path, text: bytes | None, says: str) -> None:
    config = tmp_path / "c.yaml"
    if text is not None:
        config.write_bytes(text)
    status, out, err = diagnose(log, "--config", config)
    assert (status, out) == (2, "")
    assert says in err and "c.yaml" in err and err.count("\n") <= 2


def test_nothing_known_ends_with_status_1_and_shows_the_lines(tmp_path: Path, log: Path) -> None:
    log.write_text("all is well\nFrobError: not nabbed\n")
    status, out, _ = diagnose(log)
    assert status == 1 and "FrobError: not nabbed" in out and "most likely to help" in out


@pytest.mark.parametrize(
    ("ended", "cause"),
    [
        ('"reason": "signalled", "status": 139, "signal": 11', "SIGSEGV"),
        ('"reason": "prepare_failed", "status": null, "prepare_status": 3', "with status 3"),
    ],
)
def test_the_folder_of_an_attempt_with_its_end(log: Path, tmp_path: Path, ended: str, cause: str) -> None:
    (tmp_path / "01").mkdir()
    (tmp_path / "01" / "pane.log").write_text("working\n")
    (tmp_path / "01" / "exit.json").write_text(f'{{"attempt_id": "x-01", {ended}}}')
    status, out, _ = diagnose(tmp_path / "01", "--json")
    assert status == 0 and cause in json.loads(out)["cause"]


def test_what_the_command_returned_helps_where_the_log_is_silent(log: Path) -> None:
    log.write_text("step:1 - actor/kl_loss:0.1\n")
    families = {"139": "native_crash", "-11": "native_crash", "-9": "worker_died_opaque"}
    for status, family in families.items():
        exit_status, out, _ = diagnose(log, "--status", status, "--json")
        assert (exit_status, json.loads(out)["family"]) == (0, family)


def test_d22_what_succeeded_is_said_to_have_succeeded(log: Path, tmp_path: Path) -> None:
    log.write_text("step:1 - actor/kl_loss:0.1\ndone\n")
    status, out, _ = diagnose(log, "--status", "0")
    assert status == 0 and out.splitlines() == [
        "The command ended with status 0, and its log tells of no failure."
    ]
    folder = tmp_path / "fine"
    folder.mkdir()
    experiment = new_experiment(folder, World([done()]))
    asyncio.run(loop.run(FakeExecutor(experiment, World([done()])), Playbook()))
    experiment.close()
    status, out, _ = diagnose(folder)
    assert status == 0 and out == "sort digits succeeded: attempt 1 ran to its end.\n"
    assert json.loads(diagnose(folder, "--json")[1])["family"] == "nothing_failed"


def test_secrets_are_masked(log: Path) -> None:
    log.write_text("ValueError: login with hf_abcdefghijklmnopqrstuvwxyz012345 failed: 401 Unauthorized\n")
    _, out, _ = diagnose(log, "--json")
    assert "abcdefghijklmnop" not in out


def test_what_cannot_be_read_is_named(log: Path, tmp_path: Path) -> None:
    status, _, err = diagnose(tmp_path / "none.log")
    assert status == 2 and "none.log" in err
    own = tmp_path / "config" / "harness" / "signatures"
    own.mkdir(parents=True)
    for signatures, words in ((b"- id: x\n  family: nonsense\n", "signature x"), (b"- id: \xff\n", "")):
        (own / "mine.yaml").write_bytes(signatures)
        status, _, err = diagnose(log)
        assert status == 2 and "mine.yaml" in err and words in err


def test_a_log_may_come_from_a_pipe(log: Path) -> None:
    status, out, _ = diagnose("-", piped=log.read_bytes())
    assert status == 0 and out == diagnose(log)[1]


@pytest.mark.parametrize("content", [bytes(range(256)) * 20, b"PK\x03\x04" + bytes([1, 0, 0, 0]) * 50])
def test_a_binary_file_is_said_to_be_one(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "random.bin"
    file.write_bytes(content)
    assert diagnose(file) == (2, "", f"harness: {file} is a binary file, not a log\n")
    assert "standard input is a binary file" in diagnose("-", piped=content)[2]


@pytest.mark.parametrize("encoding", ["gbk", "latin-1", "utf-8"])
def test_text_in_another_encoding_is_a_log(log: Path, encoding: str) -> None:
    words = "größer als vorher" if encoding == "latin-1" else "训练过程中显存不足，请减小批量"
    log.write_bytes(b"\0" * 5000 + words.encode(encoding) * 30 + b"\n\x1b[31m" + LOG.encode() + b"\x07\b\r\n")
    assert diagnose(log)[0] == 0


def test_d23_nothing_is_cropped_off_a_terminal(log: Path) -> None:
    _, narrow, _ = typed("diagnose", log, columns=40)
    assert narrow == typed("diagnose", log, columns=1000)[1]
    assert all(each["why"] in narrow for each in json.loads(diagnose(log, "--json")[1])["remedies"])
