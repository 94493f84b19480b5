"""The value or line that a program refused is named with what it should be, from what programs really say."""

import pytest

from harness.repair.remedies import Situation, code_changes, refused
from tests.harness.runs import found

DATA = (
    "split: validation\nprompt_key: prompt\noptim: {name: admw, lr: 0.1}\nbatch: 100\nepochs: 2.0\nmin_p: 3\n"
)


def failed(message: str, family: str = "config_error", **captures: str) -> Situation:
    seen = {"message": message, "place": "train.py, line 4", "code": "run(x)", **captures}
    return Situation(found({"family": family, "cause": "?", "captures": seen}), DATA)


@pytest.mark.parametrize(
    ("message", "captures", "says"),
    [
        ("ValueError: 'admw' is unknown, choose one of ['adam', 'adamw', 'sgd']", {}, "`optim.name: adamw`"),
        ("ValueError: batch must be divisible by 16", {}, "batch in the config: 100 → 96 or 112"),
        ("TypeError: epochs must be an integer, got 2.0", {}, "epochs in the config: 2.0 → 2"),
        ("ValueError: min_p must be at most 1, got 3", {}, "min_p in the config: 3 → 1"),
        (
            "error: unrecognized arguments: --lrr 3",
            {"key": "--lrr 3", "usage": "[--lr LR] [--out O]"},
            "`--lr`",
        ),
        ("the following arguments are required: --data", {"key": "--data"}, "Add `--data VALUE`"),
        ("KeyError: 'prompt'", {"column": "prompt"}, "another value for prompt_key"),
    ],
)
def test_the_setting_is_named_with_the_value_that_it_should_have(
    message: str, captures: dict[str, str], says: str
) -> None:
    assert says in " ".join(each.sentence for each in refused.correction(failed(message, **captures)))


def test_nothing_is_guessed_where_no_setting_is_meant() -> None:
    assert not list(refused.correction(failed("ValueError: the moon is not made of cheese")))
    assert not list(refused.correction(failed("batch must be divisible by 16", "gpu_oom")))


@pytest.mark.parametrize(
    ("message", "says"),
    [
        ("mat1 and mat2 shapes cannot be multiplied (4x10 and 8x2)", "write 10 instead of 8"),
        ("Target 99 is out of bounds.", "A label is 99"),
        ("Torch not compiled with CUDA enabled", "without a GPU, write `cpu`"),
        ("f() got an unexpected keyword argument 'evaluation_strategy'", "`eval_strategy`"),
        ("SFTConfig.__init__() got an unexpected keyword argument 'max_seq_length'", "`max_length`"),
        ("train() got an unexpected keyword argument 'early_stopping_rounds'", "lightgbm.early_stopping"),
        ("module 'jax' has no attribute 'tree_map'", "`jax.tree.map`"),
        ("module 'collections' has no attribute 'Iterable'", "`collections.abc.Iterable`"),
        ("not enough values to unpack (expected 5, got 4)", "terminated, truncated"),
        ("CatBoostError: query.h:68: Error: queryIds should be grouped", "Sort all rows"),
        ('Unexpected key(s) in state_dict: "module.fc.weight".', '{k.removeprefix("module."): v for k, v in'),
        ("no attribute 'rnu'. Did you mean: 'run'?", None),
    ],
)
def test_the_line_is_named_with_what_to_write(message: str, says: str | None) -> None:
    """What Python guesses is not advised where the cited line does not hold the wrong name."""
    change = code_changes.change_of(failed(message))
    if says is None:
        assert change is None
        return
    assert change is not None and says in change.change
    assert "train.py, line 4 (`run(x)`)" in change.change and "?" not in change.change


@pytest.mark.parametrize(
    "message", ["KeyError: 'LOCAL_RANK'", "environment variable RANK expected, but not set"]
)
def test_what_a_launcher_sets_is_left_to_it(message: str) -> None:
    change = code_changes.change_of(failed(message))
    assert change is not None and "torchrun" in change.change


def test_no_message_no_change() -> None:
    assert code_changes.change_of(failed("ValueError: the moon is not made of cheese")) is None
