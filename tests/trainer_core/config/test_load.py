"""From a file and a command line to a config: layers, names, and errors that say where and how to fix."""

import re
from copy import deepcopy
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

from trainer_core.config import Config, ConfigError, Loaded, Problem, load_config, resolved_yaml
from trainer_core.config.keys import all_keys

NOW = datetime(2026, 3, 4, 5, 6)
GOOD = "ajet:\n  experiment_name: run\n  model: {path: tiny}\n  task_reader: {type: builtin}\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "my_plan.yaml"


def load(file: Path, text: str | None = None, *overrides: str, **flags: Any) -> Loaded:
    if text is not None:
        file.write_text(text, encoding="utf-8")
    return load_config(file, now=NOW, overrides=overrides, **flags)


def problems(file: Path, text: str | None, *overrides: str, **flags: Any) -> tuple[Problem, ...]:
    with pytest.raises(ConfigError) as caught:
        load(file, text, *overrides, **flags)
    return caught.value.problems


def test_later_layers_win(file: Path) -> None:
    text = GOOD + "  rollout: {num_repeat: 6, temperature: 0.5}\n"
    rollout = load(file, text, "ajet.rollout.num_repeat=7", "ajet.rollout.num_repeat=8").config.ajet.rollout
    assert (rollout.num_repeat, rollout.temperature, rollout.top_p) == (8, 0.5, 1.0)


def test_flags_win_over_the_command_line(file: Path) -> None:
    assert load(file, GOOD, "ajet.backbone=local", backbone="trinity").config.ajet.backbone == "trinity"
    (problem,) = problems(file, GOOD, "ajet.backbone=local", backbone="trinty")
    assert (problem.key, problem.value, problem.where) == ("ajet.backbone", "trinty", "command line")


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("ajet.trainer_common.optim.lr=1e-4", 1e-4),
        ("ajet.trainer_common.optim.betas=[0.9, 0.95]", (0.9, 0.95)),
        ("ajet.trainer_common.use_kl_loss=false", False),
        ("ajet.trainer_common.total_training_steps=null", None),
        ("ajet.project_name='7'", "7"),
        ("ajet.project_name=a=b", "a=b"),
    ],
)
def test_command_line_values_are_yaml(file: Path, word: str, value: object) -> None:
    here: Any = load(file, GOOD, word).config
    for part in word.partition("=")[0].split("."):
        here = getattr(here, part)
    assert here == value


def test_a_mapping_on_the_command_line_is_merged(file: Path) -> None:
    text = GOOD + "  rollout: {num_repeat: 6}\n"
    rollout = load(file, text, "ajet.rollout={temperature: 0.5}").config.ajet.rollout
    assert (rollout.num_repeat, rollout.temperature) == (6, 0.5)


def test_sections_of_other_libraries_pass_through(file: Path) -> None:
    text = GOOD + "verl:\n  trainer: {device: '${oc.env:DEVICE}', on: [1, {a: 2}]}\n"
    loaded = load(file, text, "verl.trainer.x.y=1")
    assert loaded.config.verl == {
        "trainer": {"device": "${oc.env:DEVICE}", "on": [1, {"a": 2}], "x": {"y": 1}}
    }
    assert [(warning.key, warning.where) for warning in loaded.warnings] == [("verl", f"{file}:5")]


def test_hydra_boilerplate_is_reported_and_left_out(file: Path) -> None:
    boilerplate = "hydra:\n  searchpath: [file://x]\ndefaults:\n  - base\n  - _self_\n"
    loaded = load(file, boilerplate + GOOD)
    assert [(warning.key, warning.where) for warning in loaded.warnings] == [
        ("hydra", f"{file}:1"),
        ("defaults", f"{file}:3"),
    ]
    assert resolved_yaml(loaded.config) == resolved_yaml(load(file, GOOD).config)


def test_empty_sections_mean_defaults(file: Path) -> None:
    loaded = load(file, GOOD + "  data:\n    # nothing here\n  trainer_common:\n    optim:\nverl:\n")
    assert loaded.config == load(file, GOOD).config


@pytest.mark.parametrize(
    ("ajet", "flags", "name", "folder"),
    [
        ("", {}, "my_plan_20260304_0506", "launcher_record/my_plan_20260304_0506"),
        ("experiment_name: a|b", {}, "a-b", "launcher_record/a-b"),
        ("experiment_name: run", {"exp_dir": "/out"}, "run", "/out/run"),
        ("{experiment_name: run, experiment_dir: /there}", {}, "run", "/there"),
        ("{experiment_name: run, experiment_dir: /there}", {"exp_dir": "out"}, "run", "out/run"),
    ],
)
def test_name_and_output_folder(file: Path, ajet: str, flags: dict[str, str], name: str, folder: str) -> None:
    text = f"ajet:\n  {ajet}\n"
    words = ("ajet.model.path=tiny", "ajet.task_reader.type=builtin")
    config = load(file, text, *words, **flags).config.ajet
    assert (config.experiment_name, config.experiment_dir) == (name, folder)
    assert config.trainer_common.checkpoint_base_dir == f"{folder}/checkpoints"


def test_every_problem_is_told_at_once_with_its_line(file: Path) -> None:
    text = (
        "rollout: {n: 2}\n"
        "ajet:\n"
        "  lr: 1e-5\n"
        "  data:\n"
        '    train_batch_size: "32"\n'
        "    max_prompt_length: 1e3\n"
        "  trainer_common:\n"
        "    val_before_train: on\n"
        "    algorithm: {adv_estimator: grop}\n"
        "  task_reader: builtin\n"
    )
    told = {problem.key: problem for problem in problems(file, text, "ajet.trainer_common.seed=-1")}
    assert {key: problem.where.removeprefix(f"{file}:") for key, problem in told.items()} == {
        "rollout": "1",
        "ajet.lr": "3",
        "ajet.data.train_batch_size": "5",
        "ajet.data.max_prompt_length": "6",
        "ajet.trainer_common.val_before_train": "8",
        "ajet.trainer_common.algorithm.adv_estimator": "9",
        "ajet.task_reader": "10",
        "ajet.trainer_common.seed": "command line",
    }
    assert told["ajet.data.train_batch_size"].fix == "Remove the quotes."
    assert told["ajet.data.max_prompt_length"].fix == "Write 1000."
    assert told["ajet.trainer_common.val_before_train"].fix == "Write true."
    assert told["ajet.trainer_common.algorithm.adv_estimator"].fix == "Did you mean `grpo`?"
    assert "ajet.trainer_common.optim.lr" in told["ajet.lr"].fix
    assert told["ajet.trainer_common.seed"].message == "must be int >= 0, < 9223372036854775808."


def test_a_broken_rule_is_told_at_the_key_to_blame(file: Path) -> None:
    text = GOOD + "  rollout:\n    max_model_len: 100\n    gamma: 0.9\n"
    assert [(problem.key, problem.where, problem.value) for problem in problems(file, text)] == [
        ("ajet.rollout.max_model_len", f"{file}:6", 100),
        ("ajet.rollout.gamma", f"{file}:7", 0.9),
    ]


def test_a_refused_key_reads_as_one_sentence_with_line_and_mend(file: Path) -> None:
    (problem,) = problems(file, GOOD + "  opd:\n    anything: 1\n")
    assert str(problem) == (
        f'{file}:5: ajet.opd: {{"anything": 1}} is refused: `local` does not distil. '
        "Leave it out; it is not available in this version."
    )


def test_a_name_that_only_verl_knows_is_answered_with_what_to_use(file: Path) -> None:
    text = GOOD + "  trainer_common:\n    algorithm: {policy_loss: geo_mean}\n    kl_penalty_type: full\n"
    assert [(problem.key.rpartition(".")[2], problem.fix) for problem in problems(file, text)] == [
        ("policy_loss", "Use gspo, which takes the same mean of log-ratios."),
        ("kl_penalty_type", "Use low_var_kl: only the probabilities of the sampled tokens are known."),
    ]


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "is empty"),
        (b"# only a remark\n", "is empty"),
        (b"- a\n- b\n", "is not a mapping"),
        (b"just text", "is not a mapping"),
        (b"\x80\x03}q\x00", "is not text"),
        (b"a: \x00", "is not YAML"),
        (b"ajet:\n\tdata: 1\n", "spaces instead of tabs"),
        (b"ajet:\n  data: {}\n  data: {}\n", "stands twice"),
    ],
)
def test_a_file_that_is_no_config(file: Path, content: bytes, told: str) -> None:
    file.write_bytes(content)
    (problem,) = problems(file, None)
    assert problem.where.startswith(str(file))
    assert told in str(problem)


def test_a_file_that_is_not_there(file: Path) -> None:
    file.write_text(GOOD)
    (problem,) = problems(file.with_name("my_plam.yaml"), None)
    assert str(file) in problem.fix
    (problem,) = problems(file / "config.yaml", None)
    assert "cannot be read" in problem.message
    (problem,) = problems(file.parent, None)
    assert "is a folder" in problem.message


@pytest.mark.parametrize(
    "word", ["num_repeat", "+a.b=1", "~a.b=1", "++a=1", "=1", "a..b=1", "ajet.data.x=[1"]
)
def test_words_that_are_no_settings(file: Path, word: str) -> None:
    (problem,) = problems(file, GOOD, word)
    assert problem.where.startswith("command line")


@pytest.mark.parametrize("value", ["${oc.env:HOME}", "a/${ajet.project_name}"])
def test_interpolation_is_refused_where_it_would_matter(file: Path, value: str) -> None:
    (problem,) = problems(file, GOOD + f"  project_name: {value}\n")
    assert (problem.key, problem.where, problem.value) == ("ajet.project_name", f"{file}:5", value)


def test_a_byte_order_mark_is_tolerated(file: Path) -> None:
    file.write_bytes(b"\xef\xbb\xbf" + GOOD.encode())
    assert load(file).config.ajet.model.path == "tiny"


def test_resolved_yaml_reads_back_to_the_same_config(file: Path) -> None:
    long_name = "long name " * 20
    words = (
        f"ajet.task_judge.alien_llm_model={long_name}",
        "ajet.project_name='1e-6'",
        "ajet.trainer_common.optim.lr=1e-6",
        "verl.a.b=[1, on]",
    )
    first = load(file, GOOD, *words)
    second = load(file, resolved_yaml(first.config))
    assert second.config == first.config
    assert {warning.key for warning in second.warnings} == {warning.key for warning in first.warnings}
    written = YAML(typ="safe", pure=True).load(resolved_yaml(first.config))
    assert written["ajet"]["trainer_common"]["optim"]["lr"] == 1e-6
    assert f"{long_name.strip()}\n" in resolved_yaml(first.config)
    settable = [key for key in all_keys().values() if key.path.startswith("ajet.") and not key.is_section]
    unnamed = {"ajet.task_judge.judge_type", "ajet.task_judge.judge_protocol"}
    for key in settable:
        if key.path in unnamed:
            continue  # naming them has a meaning of its own
        here = written
        for part in key.path.split("."):
            here = here[part]


def loaded_or_refused(file: Path, *words: str) -> Config | None:
    """The config; None if it is refused in a way that tells where and how to fix it."""
    told: tuple[Problem, ...] = ()
    try:
        return load(file, None, *words).config
    except ConfigError as error:
        told = error.problems
    assert told
    assert all(problem.where and problem.message and problem.fix for problem in told)
    return None


anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(["tiny", "auto"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=4), inner, max_size=2),
    max_leaves=3,
)


@st.composite
def setting(draw: st.DrawFn) -> tuple[str, Any]:
    """A key of the schema, perhaps misspelt, with its default, a small number or just anything."""
    key = draw(st.sampled_from(list(all_keys().values())))
    path = draw(st.sampled_from([key.path, key.path, key.path, f"{key.path}x", f"{key.path}.x"]))
    return path, draw(st.just(key.default).map(deepcopy) | st.integers(-1, 3) | anything)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(chosen=st.lists(setting(), max_size=4))
def test_any_settings_load_and_read_back_or_are_refused(
    tmp_path: Path, chosen: list[tuple[str, Any]]
) -> None:
    file = tmp_path / "x.yaml"
    tree: dict[str, Any] = {"ajet": {"model": {"path": "tiny"}, "task_reader": {"type": "builtin"}}}
    for path, value in chosen:
        here = tree
        *parents, last = path.split(".")
        for part in parents:
            if not isinstance(here.get(part), dict):
                here[part] = {}
            here = here[part]
        here[last] = value
    with file.open("w", encoding="utf-8") as stream:
        YAML(typ="safe", pure=True).dump(tree, stream)
    config = loaded_or_refused(file)
    if config is not None:
        assert load(file, resolved_yaml(config)).config.ajet == config.ajet


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.binary(max_size=80), words=st.lists(st.text(max_size=30), max_size=2))
def test_any_bytes_and_words_are_read_or_refused(tmp_path: Path, content: bytes, words: list[str]) -> None:
    file = tmp_path / "x.yaml"
    file.write_bytes(content)
    with pytest.raises(ConfigError):
        load_config(file, now=NOW, overrides=words)
    file.write_text(GOOD)
    loaded_or_refused(file, *words)


@pytest.mark.parametrize(
    ("word", "told"),
    [
        ("ajet.trainer_common.seed=99999999999999999999", "fit into 64 bits"),
        (f"ajet.experiment_name={'x' * 256}", "longer than the 255 bytes"),
        ("ajet.task_reader.huggingface_dat_repo.dataset_path=", "must be text that is not empty"),
        ("ajet.trainer_common.num_threads=100000", "int > 0, <= 1024"),
        ("ajet.rollout.temperature=1e-300", "must be number >= 0.001"),
        ("ajet.rollout.val_kwargs.temperature=1e-9", "between 0 and 0.001"),
        ('ajet.experiment_dir="a\\0b"', "holds a character that is no text"),
        ('ajet.experiment_name="\\ud800"', "holds a character that is no text"),
        ("ajet.model.path=~nobody-is-called-so/x", "there is no such folder"),
        ("ajet.trainer_common.algorithm.adv_estimator=GRPO", "Did you mean `grpo`?"),
        ("ajet.rollout.num_repeat=\u0665", "The default is 4."),
    ],
)
def test_values_that_nothing_could_be_done_with(file: Path, word: str, told: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(told)):
        load(file, GOOD, word)


def test_a_dotted_key_in_the_file_is_told_to_be_nested(file: Path) -> None:
    with pytest.raises(ConfigError, match="one name per line"):
        load(file, "ajet.model.path: tiny\n")
