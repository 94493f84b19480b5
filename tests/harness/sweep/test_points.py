"""What a run of a sweep is: read back as `harness run` reads it."""

import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness import launching
from harness.blueprint import Blueprint, Problem, read
from harness.command import read as command
from harness.config import NOTHING
from harness.guard import science, variables
from harness.sweep.plan import CANARY, SweepError, SweepFolder, SweepPlan
from harness.sweep.points import AskTrainer, Base, check_keys, config_text, current, leaves, warnings
from harness.sweep.points import write_runs as write
from tests.harness.sweep.varied import CONFIG, experiment, plan

MORE = r"""
## [exp_metrics]
- `step (?P<step>\d+) loss (?P<loss>\S+)`
- first_step: `begins`
- metric: `val/word error rate`
- goal: min

## [exp_protected_keys]
- `model`

## [exp_code_changes]
- `src/*.py`
- `train.py`

## [exp_prepare_command]
`mkdir -p cache && touch cache/x`

## [exp_evaluate_command]
`python eval.py`

## [exp_cleanup_command]
`rm -rf cache`

## Other Notes
- Nobody may stop it early.

### Why
Because.
"""


def write_runs(plan: SweepPlan, base: Blueprint, folder: SweepFolder, *ask: AskTrainer) -> None:
    check_keys(plan, base, config_text(base))
    write(plan, Base(base, config_text(base), base.codebase_dir), folder, *ask)


def written(folder: SweepFolder, run: str) -> Blueprint:
    """The run's blueprint as its job reads it; the same stands there for readers."""
    found = read(folder.run_data(run))
    assert found.can_run and found.path == folder.run_blueprint(run)
    assert str(found.launch_command or "NA") in found.path.read_text()
    return found


def test_a_run_is_the_base_blueprint_with_its_levels_and_seed(tmp_path: Path, folder: SweepFolder) -> None:
    base = experiment(tmp_path, more=MORE)
    vary = {"optim.weight_decay": [0.1, 0.2], "arg:--lr": ["1e-4", "3e-4"], "env:MODE": ["a", "b c"]}
    write_runs(plan(vary, settings={"batch_size": 4}), base, folder)
    run = written(folder, "p08-s1")
    own = ("path", "name", "purpose", "yaml_path", "launch_command", "result_dir", "protected_keys", "lines")
    left = dict.fromkeys(own)
    assert replace(run, **left) == replace(base, **left)
    assert run.result_dir == folder.dir / "p08-s1"
    assert run.purpose.startswith(base.purpose)
    for words in ("optim.weight_decay", "0.2", "3e-4", "b c", "seed is 1", "trial-sweep", "p08"):
        assert words in run.purpose
    config = folder.run_config("p08-s1")
    assert run.yaml_path == config
    own = {"optim.weight_decay": 0.2, "seed": 1, "batch_size": 4}
    assert leaves(config.read_text()) == leaves(CONFIG) | own
    assert "# how it trains" in config.read_text()
    train = f"python train.py --config {shlex.quote(str(config))} --lr 3e-4 | tee out.txt"
    assert run.launch_command == f"export MODE='b c'\n{train}"
    assert (current(run, "arg:--lr"), current(run, "env:MODE")) == ("3e-4", "b c")


def test_no_repair_may_touch_what_is_varied(tmp_path: Path, folder: SweepFolder) -> None:
    base = experiment(tmp_path, more=MORE)
    flags = {"arg:--micro-batch-size": ["1", "2"], "env:NCCL_P2P_DISABLE": ["0", "1"]}
    vary = {"optim.lr_scale": [1, 2], **flags}
    config = CONFIG.replace("lr: 1e-4", "lr_scale: 1") + "micro_batch_size: 4\nnum_workers: 2\n"
    (base.codebase_dir / "conf" / "run.yaml").write_text(config)
    write_runs(plan(vary, settings={"num_workers": 1}), base, folder)
    run = written(folder, "p01-s0")
    text = folder.run_config("p01-s0").read_text()
    refusals = (
        science.refuse_edit(text, {"micro_batch_size": 1}, (), run.protected_keys),
        science.refuse_edit(text, {"num_workers": 0}, (), run.protected_keys),
        variables.refuse("NCCL_P2P_DISABLE", "1", run.protected_keys),
    )
    assert all("protected by the blueprint" in (why or "") for why in refusals)
    assert {"model", "seed", "optim.lr_scale"} <= set(run.protected_keys)
    assert science.refuse_edit(text, {"num_workers": 0}, (), ("model",)) is None


def test_a_flag_with_slashes_is_protected_by_its_parts(tmp_path: Path, folder: SweepFolder) -> None:
    base = experiment(tmp_path, "python train.py +group/optim@model=adam", config=None)
    write_runs(plan({"arg:group/optim@model": ["adam", "sgd"]}, seed_key=""), base, folder)
    run = written(folder, "p02")
    assert run.launch_command == "python train.py +group/optim@model=sgd"
    assert run.protected_keys == ("group.optim.model",)


def test_the_canary_is_the_first_run_with_settings_of_its_own(tmp_path: Path, folder: SweepFolder) -> None:
    base = experiment(tmp_path)
    write_runs(plan({"batch_size": [8, 16]}, canary={"optim.weight_decay": 0.0}), base, folder)
    first, canary = (leaves(folder.run_config(name).read_text()) for name in ("p01-s0", CANARY))
    assert canary == first | {"optim.weight_decay": 0.0}
    run = written(folder, CANARY)
    assert "trial run" in run.purpose and run.result_dir == folder.dir / CANARY


def test_a_config_is_rendered_where_the_blueprint_leaves_it_open(tmp_path: Path, folder: SweepFolder) -> None:
    base = experiment(tmp_path, command="", config=None)
    asked: list[str] = []

    def ask(run: Blueprint) -> Blueprint:
        asked.append(run.name)
        return run

    lr, seed = "ajet.trainer_common.optim.lr", "ajet.trainer_common.seed"
    write_runs(plan({lr: [1e-4, 3e-4, 1e-3], "env:MODE": ["a", "b"]}, seed_key=seed), base, folder, ask)
    found = leaves(folder.run_config("p06-s1").read_text())
    assert (found[lr], found[seed]) == (1e-3, 1)
    run = written(folder, "p06-s1")
    assert run.launch_command is not None
    assert run.launch_command.startswith("export MODE=b\n/usr/bin/python3 -m trainer_core.cli --conf ")
    assert launching.uses_config(run)
    assert len(asked) == 3, "three configs show every level"


def test_what_the_trainer_refuses_is_refused_before_the_start(tmp_path: Path, folder: SweepFolder) -> None:
    base = experiment(tmp_path, command="", config=None)

    def ask(run: Blueprint) -> Blueprint:
        bad = leaves(folder.run_config(run.name).read_text())["ajet.rollout.num_repeat"] == 0
        return replace(run, problems=(Problem(1, "num_repeat is 0", "write 1 or more"),) if bad else ())

    with pytest.raises(SweepError, match="config of run p02: num_repeat is 0 — write 1 or more"):
        write_runs(plan({"ajet.rollout.num_repeat": [8, 0]}, seed_key=""), base, folder, ask)


RUN = "python train.py conf/run.yaml"


@pytest.mark.parametrize(
    ("key", "command", "config", "said"),
    [
        ("optim.weight_decai", RUN, CONFIG, "mean optim.weight_decay"),
        ("weight_decay", RUN, CONFIG, "mean optim.weight_decay"),
        ("optim", RUN, CONFIG, "holds a mapping"),
        ("optim.lr", f"{RUN} --lr 3", CONFIG, "vary arg:--lr instead"),
        ("optim.lr", f"{RUN} ++optim.lr=3", CONFIG, "vary arg:optim.lr instead"),
        ("optim.lr", f"ARGS='--lr 3'\n{RUN} $ARGS", CONFIG, "sets it itself"),
        ("optim.lr", f"bash -c '{RUN} --lr 3'", CONFIG, "sets it itself"),
        ("optim.lr", "python train.py", CONFIG, "does not name the config"),
        ("optim.lr", "python train.py", None, "names no config"),
        ("arg:--lr", "", None, "no launch command"),
        ("ajet.rollout.num_repeats", "", None, r"mean ajet\.rollout\.num_repeat\?"),
    ],
)
def test_a_key_that_nobody_would_read_is_refused(
    tmp_path: Path, folder: SweepFolder, key: str, command: str, config: str | None, said: str
) -> None:
    base = experiment(tmp_path, command, config)
    with pytest.raises(SweepError, match=said):
        write_runs(plan({key: [1, 2]}, seed_key=""), base, folder)


def test_a_variable_of_the_command_is_no_key_of_the_config(tmp_path: Path, folder: SweepFolder) -> None:
    command = "SEED=8000 python -u train.py --config conf/run.yaml"
    write_runs(plan({"seed": [1, 2]}, seed_key=""), experiment(tmp_path, command), folder)
    config = folder.run_config("p02")
    assert leaves(config.read_text())["seed"] == 2
    assert written(folder, "p02").launch_command == command.replace("conf/run.yaml", shlex.quote(str(config)))


def test_a_script_that_reads_no_arguments_is_given_no_flag(tmp_path: Path, folder: SweepFolder) -> None:
    base = experiment(tmp_path, "export A=1\nbash -eu run.sh", config=None)
    script = base.codebase_dir / "run.sh"
    made = plan({"arg:--lr": ["1", "2"]}, seed_key="arg:--seed")
    script.write_text("python train.py\n")
    with pytest.raises(SweepError, match=r'run.sh would be given --lr.*write "\$@"'):
        write_runs(made, base, folder)
    script.write_text('python train.py "$@"\n')
    write_runs(made, base, folder)
    assert written(folder, "p02-s1").launch_command == "export A=1\nbash -eu run.sh --lr 2 --seed 1"


def test_writing_again_mends_what_a_kill_has_left(tmp_path: Path, folder: SweepFolder) -> None:
    base = experiment(tmp_path)
    made = plan({"batch_size": [8, 16]})
    write_runs(made, base, folder)
    before = {path: path.read_bytes() for path in folder.dir.glob("plan/*/*")}
    folder.run_config("p02-s1").write_text("torn: [")
    folder.run_blueprint("p01-s0").unlink()
    (folder.dir / "plan" / "p01-s0" / ".blueprint.md.999999.tmp").write_text("half")
    write_runs(made, base, folder)
    assert {path: path.read_bytes() for path in folder.dir.glob("plan/*/*")} == before
    assert len(before) == 12


@pytest.mark.parametrize("name", ["my exp's ü", "a (b) #1, c: d - e", "实验 数据", "two  spaces", "*a*__b__"])
def test_odd_words_and_folders_change_nothing(tmp_path: Path, name: str) -> None:
    home = tmp_path / name
    home.mkdir()
    words = "[exp_max_time] 3 hours\n```\ndescription: odd"
    base = replace(experiment(home), purpose=words, notes=f"## {words}")
    folder = SweepFolder(home / "results" / "trial sweep")
    write_runs(plan({"optim.weight_decay": [1e-6, 1e-3], "arg:--lr": ["a b", "c"]}), base, folder)
    run = written(folder, "p02-s0")
    assert (run.notes, run.max_time_s) == (base.notes, 7200)
    assert run.purpose.startswith(words)
    attempt = Path("/x/attempts/01/config.yaml")
    assert command(launching.command(run, attempt)).value("arg:--config") == str(attempt)
    assert command(run.launch_command or "").value("arg:--config") == str(folder.run_config("p02-s0"))


def test_the_present_value_of_a_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = "export SET=1 LATER=${SET}\npython train.py conf/run.yaml --lr=1e-4 -n 3 ++a.b=c"
    base = experiment(tmp_path, command)
    monkeypatch.setenv("OURS", "here")
    monkeypatch.setenv("SET", "hidden by the command")
    expected = {"arg:--lr": "1e-4", "arg:-n": "3", "arg:a.b": "c", "arg:--no": NOTHING, "optim.lr": 1e-4}
    expected |= {"env:SET": "1", "env:OURS": "here", "env:NOWHERE": NOTHING, "model": "base"}
    expected["optim"] = NOTHING
    assert {key: current(base, key) for key in expected} == expected


def warned(home: Path, command: str, vary: dict[str, list[Any]]) -> tuple[str, ...]:
    base = experiment(home, command)
    return warnings(plan(vary), Base(base, config_text(base), base.codebase_dir))


def test_what_follows_from_varying_a_key_is_said_once_per_key(tmp_path: Path) -> None:
    command = "python train.py --config conf/run.yaml --lr 1 --output_dir out --epochs 3"
    vary: dict[str, list[Any]] = {"batch_size": [8, 16], "arg:--epochs": ["3", "6"], "arg:--lr": ["1", "2"]}
    said = warned(tmp_path, command, vary)
    assert [sentence.split()[0] for sentence in said] == ["batch_size", "arg:--epochs", "output_dir"]
    assert "samples" in said[0] and "compute" in said[1] and "HARNESS_ATTEMPT_DIR" in said[2]
    command = 'python train.py conf/run.yaml --output_dir "$HARNESS_ATTEMPT_DIR/out"'
    assert warned(tmp_path, command, {"optim.lr": [1e-4, 1e-3]}) == ()
