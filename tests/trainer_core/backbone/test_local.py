"""The training loop as a user meets it: files, console, resuming, failing."""

import errno
import fcntl
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from trainer_core.backbone.main import train
from trainer_core.backbone.own_folder import own_folder
from trainer_core.config.schema import Config

TinyConfig = Callable[..., Config]


def rows(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def numbers(folder: Path) -> list[dict[str, Any]]:
    """The rows without what the clock decides."""
    return [
        {name: value for name, value in row.items() if not name.startswith(("timing_s/", "perf/throughput"))}
        for row in rows(folder)
    ]


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return dict(AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).state_dict())


def same_weights(first: Path, second: Path) -> bool:
    ours, theirs = weights(first), weights(second)
    return ours.keys() == theirs.keys() and all(torch.equal(ours[name], theirs[name]) for name in ours)


def test_a_run_leaves_everything_a_reader_expects(
    tiny_config: TinyConfig,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))  # so that the warm-up is seen
    assert train(tiny_config(mini_batch_num=1)) == 0
    folder = tmp_path / "run"
    found = rows(folder)
    assert [row["step"] for row in found] == list(range(7))
    assert all(name == "step" or name.startswith("val/") for name in found[0])
    assert [row["step"] for row in found if "val/task_pass_rate@1" in row] == [0, 3, 6]
    expected = (
        "actor/kl_loss actor/pg_loss actor/entropy actor/grad_norm actor/lr actor/ppo_kl actor/pg_clipfrac "
        "critic/rewards/mean critic/rewards/max critic/rewards/min critic/advantages/mean "
        "response_length/mean "
        "response_length/clip_ratio prompt_length/mean timing_s/gen "
        "timing_s/ref timing_s/adv "
        "timing_s/update_actor timing_s/step perf/throughput"
    )
    assert set(expected.split()) <= set(found[1])
    assert {"timing_s/testing", "timing_s/save_checkpoint"} <= set(found[6])
    assert all(row["training/rollout_probs_diff_max"] < 1e-5 for row in found[1:])
    assert found[1]["actor/kl_loss"] < 1e-9  # nothing has moved when the first step begins
    assert all(row["actor/kl_loss"] > 1e-6 for row in found[2:])

    console = capsys.readouterr().out.splitlines()
    assert sum(line.startswith("step:") for line in console) == 7
    assert any(line.startswith("[ajet] warm-up 10/200") for line in console)
    assert console[-2].startswith("step:6 - actor/")
    assert console[-1].startswith("[ajet] done after step 6: val/")

    record = [json.loads(line) for line in (folder / "validation.jsonl").read_text().splitlines()]
    assert len(record) == 3 * 12
    for step in (0, 3, 6):
        successes = [won for line in record if line["step"] == step for won in line["successes"]]
        row = next(row for row in found if row["step"] == step)
        assert row["val/task_pass_rate@1"] == pytest.approx(sum(successes) / 24)
    table = (folder / "validation.md").read_text().splitlines()
    assert [line.split("|")[1].strip() for line in table[2:]] == ["0", "3", "6"]

    checkpoints = folder / "checkpoints"
    assert sorted(path.name for path in checkpoints.iterdir()) == [
        "latest",
        *(f"step_00000{n}" for n in (2, 4, 6)),
    ]
    assert (checkpoints / "latest").read_text().strip() == "step_000006"
    tokenizer = AutoTokenizer.from_pretrained(checkpoints / "step_000006")
    assert (
        tokenizer.apply_chat_template([{"role": "user", "content": "1"}], tokenize=False)
        == "<|user|>1<|end|>"
    )
    assert not same_weights(checkpoints / "step_000002", checkpoints / "step_000006")
    environment = json.loads((folder / "environment.json").read_text())
    assert environment["packages"]["torch"] == torch.__version__
    assert environment["torch_threads"] == 1 and environment["seed"] == 0
    assert environment["model_parameters"] > 1000 and environment["start_model_cache_key"]


def test_same_seed_same_digits_and_another_seed_other_digits(
    tiny_config: TinyConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert train(tiny_config("c", seed=1)) == 0
    for folder in ("a", "b"):
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / f"cache-{folder}"))  # each warms up for itself
        assert train(tiny_config(folder)) == 0
    assert numbers(tmp_path / "a") == numbers(tmp_path / "b")
    assert numbers(tmp_path / "a")[1:] != numbers(tmp_path / "c")[1:]
    last = "checkpoints/step_000006"
    assert same_weights(tmp_path / "a" / last, tmp_path / "b" / last)


def test_a_resumed_run_gives_the_numbers_of_an_uninterrupted_one(
    tiny_config: TinyConfig, tmp_path: Path
) -> None:
    assert train(tiny_config("whole")) == 0
    assert train(tiny_config("cut")) == 0
    cut = tmp_path / "cut"
    shutil.rmtree(cut / "checkpoints" / "step_000006")  # as if it had been killed after step 5
    (cut / "checkpoints" / "latest").write_text("step_000004\n")
    assert train(tiny_config("cut")) == 0
    assert numbers(cut) == numbers(tmp_path / "whole")
    for name in ("validation.jsonl", "validation.md"):
        assert (cut / name).read_text() == (tmp_path / "whole" / name).read_text()
    assert same_weights(cut / "checkpoints/step_000006", tmp_path / "whole/checkpoints/step_000006")


def test_a_row_lost_between_checkpoint_and_file_is_written_again(
    tiny_config: TinyConfig, tmp_path: Path
) -> None:
    assert train(tiny_config(total_training_steps=4)) == 0
    path = tmp_path / "run" / "metrics.jsonl"
    before = numbers(tmp_path / "run")
    path.write_text("\n".join(path.read_text().splitlines()[:-1]) + "\n")
    assert train(tiny_config(total_training_steps=4)) == 0
    assert numbers(tmp_path / "run") == before


def test_more_steps_go_on_and_a_changed_key_is_mentioned(
    tiny_config: TinyConfig, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert train(tiny_config(total_training_steps=2)) == 0
    capsys.readouterr()
    assert train(tiny_config(total_training_steps=3, kl_loss_coef=0.5)) == 0
    console = capsys.readouterr().out
    assert "[ajet] going on after step 2" in console
    assert "warning: ajet.trainer_common.kl_loss_coef was 0.002 up to here and is 0.5 from now on" in console
    assert "total_training_steps was" not in console
    assert [row["step"] for row in rows(tmp_path / "run")] == [0, 1, 2, 3]


def test_resume_never_refuses_a_folder_that_holds_a_run(
    tiny_config: TinyConfig, capsys: pytest.CaptureFixture[str]
) -> None:
    assert train(tiny_config(total_training_steps=2)) == 0
    assert train(tiny_config(resume="never")) == 1
    assert "resume is never" in capsys.readouterr().err


def test_another_start_model_is_refused(tiny_config: TinyConfig, capsys: pytest.CaptureFixture[str]) -> None:
    assert train(tiny_config(total_training_steps=2)) == 0
    assert train(tiny_config(seed=1)) == 1
    assert "another start model" in capsys.readouterr().err


def test_old_checkpoints_are_removed_when_asked(tiny_config: TinyConfig, tmp_path: Path) -> None:
    assert train(tiny_config(max_checkpoints_to_keep=1)) == 0
    assert sorted(path.name for path in (tmp_path / "run" / "checkpoints").iterdir()) == [
        "latest",
        "step_000006",
    ]


def test_validation_only(tiny_config: TinyConfig, tmp_path: Path) -> None:
    assert train(tiny_config(val_only=True)) == 0
    assert [row["step"] for row in rows(tmp_path / "run")] == [0]
    assert not (tmp_path / "run" / "checkpoints").exists()


def test_validation_only_needs_no_training_file(tiny_config: TinyConfig, tmp_path: Path) -> None:
    assert train(tiny_config("first", total_training_steps=2)) == 0
    (tmp_path / "data.jsonl").write_text('{"question": "321", "answer": "123"}\n')
    file = {"file_path": str(tmp_path / "data.jsonl")}
    reader = {"type": "jsonl_dataset_file", "jsonl_dataset_file": {"validation": file}}
    tree = tiny_config("second", task_reader=reader, val_only=True).model_dump()
    tree["ajet"]["model"]["path"] = str(tmp_path / "first/checkpoints/step_000002")
    assert train(Config.model_validate(tree)) == 0
    assert rows(tmp_path / "second")[0]["val/total_tasks"] == 1


def test_a_model_folder_and_a_judge_of_ones_own(
    tiny_config: TinyConfig, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The checkpoint of one run is the start model of the next; rewards come from the user's class."""
    assert train(tiny_config("first", total_training_steps=2)) == 0
    (tmp_path / "judge.py").write_text(
        "class Long:\n    def compute_reward(self, task, output):\n        return "
        "float(len(output.text)), None\n"
    )
    (tmp_path / "data.jsonl").write_text("".join(f'{{"question": "{n}"}}\n' for n in range(100, 120)))
    file = {"file_path": str(tmp_path / "data.jsonl")}
    config = tiny_config(
        "second",
        task_reader={
            "type": "jsonl_dataset_file",
            "jsonl_dataset_file": {"training": file, "validation": file},
        },
        total_training_steps=2,
    )
    tree = config.model_dump()
    tree["ajet"]["model"]["path"] = str(tmp_path / "first/checkpoints/step_000002")
    tree["ajet"]["task_judge"] |= {
        "judge_type": "customized_protocol",
        "judge_protocol": f"{tmp_path}/judge.py->Long",
    }
    assert train(Config.model_validate(tree)) == 0
    assert "20 validation questions are also trained on, such as '100'" in capsys.readouterr().out
    assert rows(tmp_path / "second")[1]["critic/rewards/max"] > 1.0
    assert json.loads((tmp_path / "second/environment.json").read_text())["start_model_cache_key"] is None


def test_shuffled_rewards_change_the_update_and_nothing_before_it(
    tiny_config: TinyConfig, tmp_path: Path
) -> None:
    assert train(tiny_config("plain", total_training_steps=1)) == 0
    tree = tiny_config("control", total_training_steps=1).model_dump()
    tree["ajet"]["trainer_common"]["algorithm"]["shuffle_rewards"] = True
    assert train(Config.model_validate(tree)) == 0
    (_, plain), (_, control) = rows(tmp_path / "plain"), rows(tmp_path / "control")
    assert plain["critic/rewards/mean"] == control["critic/rewards/mean"]
    assert plain["response_length/mean"] == control["response_length/mean"]
    assert plain["actor/pg_loss"] != control["actor/pg_loss"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"task_reader": {"type": "builtin", "builtin": {"name": "sort_digits", "digits": 1}}},
            "ask for more digits",
        ),
        ({"optim": {"lr": 1e30, "grad_clip": 1e30}}, "diverged"),
    ],
)
def test_what_cannot_be_trained_ends_with_one_clear_error(
    tiny_config: TinyConfig, capsys: pytest.CaptureFixture[str], change: dict[str, Any], message: str
) -> None:
    assert train(tiny_config(**change)) == 1
    error = capsys.readouterr().err
    assert error.startswith("error: ") and error.count("\n") == 1 and message in error


def test_the_same_ids_in_both_files_do_not_mix_the_questions(tiny_config: TinyConfig, tmp_path: Path) -> None:
    """Lines without an id are called line-1, line-2 … in either file."""
    for name, questions in (("train", range(100, 140)), ("val", range(7, 9))):
        lines = (f'{{"question": "{n}", "answer": "{n}"}}\n' for n in questions)
        (tmp_path / f"{name}.jsonl").write_text("".join(lines))
    files = {
        split: {"file_path": str(tmp_path / f"{name}.jsonl")}
        for split, name in (("training", "train"), ("validation", "val"))
    }
    reader = {"type": "jsonl_dataset_file", "jsonl_dataset_file": files}
    assert train(tiny_config(task_reader=reader, total_training_steps=10)) == 0
    assert {row["prompt_length/mean"] for row in rows(tmp_path / "run")[1:]} == {
        6.0
    }  # three digits, never one


def test_the_checkpoints_of_another_experiment_are_not_taken_for_ones_own(
    tiny_config: TinyConfig, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shared = str(tmp_path / "saved_checkpoints")
    assert train(tiny_config("first", total_training_steps=2, checkpoint_base_dir=shared)) == 0
    other = tiny_config("second", total_training_steps=2, checkpoint_base_dir=shared).model_dump()
    other["ajet"]["experiment_name"] = "another"
    assert train(Config.model_validate(other)) == 1
    assert "belongs to experiment 'test'" in capsys.readouterr().err


def test_validation_only_validates_the_last_checkpoint(tiny_config: TinyConfig, tmp_path: Path) -> None:
    assert train(tiny_config(total_training_steps=2, test_freq=-1)) == 0
    assert train(tiny_config(total_training_steps=2, test_freq=-1, val_only=True)) == 0
    record = (tmp_path / "run" / "validation.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in record] == [0] * 12 + [2] * 12
    assert "val/task_pass_rate@1" in rows(tmp_path / "run")[-1]


def test_a_model_that_reads_too_little_is_refused(
    tiny_config: TinyConfig, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert train(tiny_config("first", total_training_steps=2)) == 0
    folder = tmp_path / "first" / "checkpoints" / "step_000002"
    settings = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**settings, "max_position_embeddings": 6}))
    config = tiny_config("second").model_dump()
    config["ajet"]["model"] = {"path": str(folder)}
    assert train(Config.model_validate(config)) == 1
    assert "reads at most 6 tokens" in capsys.readouterr().err


def test_a_folder_belongs_to_one_training_at_a_time(
    tiny_config: TinyConfig, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "run").mkdir()
    with (tmp_path / "run" / ".lock").open("w") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        assert train(tiny_config()) == 1
    assert "error: another training is writing to " in capsys.readouterr().err
    assert train(tiny_config(total_training_steps=2)) == 0


def test_autokill_ends_who_holds_the_folder_and_nobody_else(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "lock").touch()
    holds = (
        "import fcntl, sys, time\n"
        "held = open(sys.argv[1], 'a')\n"
        "fcntl.flock(held, fcntl.LOCK_EX)\n"
        "print(flush=True)\n"
        "time.sleep(60)"
    )
    started = [
        subprocess.Popen([sys.executable, "-c", holds, str(path)], stdout=subprocess.PIPE)
        for path in (tmp_path / "run" / ".lock", tmp_path / "lock")
    ]
    try:
        for each in started:
            assert each.stdout is not None and each.stdout.readline() == b"\n"
        with own_folder(tmp_path / "run", ends_other=True):
            assert started[0].poll() is not None and started[1].poll() is None
    finally:
        for each in started:
            each.kill()
            each.communicate()


@pytest.mark.parametrize(
    ("trouble", "said"),
    [
        (KeyError("nobody thought of this"), "unexpected KeyError: 'nobody thought of this'"),
        (
            torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 220.00 MiB"),
            "the GPU has too little memory: CUDA out of memory. Tried to allocate 220.00 MiB. Lower rollout.",
        ),
        (OSError(errno.EIO, "Input/output error"), "[Errno 5] Input/output error"),
        (OSError(errno.ENOSPC, "No space left on device"), "No space left on device. Free some space there"),
    ],
    ids=str,
)
def test_whatever_goes_wrong_is_one_line_and_its_traceback_in_the_log(
    trouble: Exception,
    said: str,
    tiny_config: TinyConfig,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise trouble

    monkeypatch.setattr("trainer_core.backbone.loop.batch_metrics", broken)
    assert train(tiny_config(val_before_train=False)) == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and error.startswith("error: ") and said in error
    assert "Traceback" in (tmp_path / "run" / "train.log").read_text()
