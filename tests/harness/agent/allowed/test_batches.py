"""The effective batch may be cut up differently, never changed."""

import pytest

from harness.agent.allowed.science import refuse_edit

HF = "per_device_train_batch_size: 8\ngradient_accumulation_steps: 2\nlearning_rate: 1e-5\n"


@pytest.mark.parametrize(
    "changes",
    [
        {"per_device_train_batch_size": 4, "gradient_accumulation_steps": 4},
        {"per_device_train_batch_size": 1, "gradient_accumulation_steps": 16},
        {"per_device_train_batch_size": 16, "gradient_accumulation_steps": 1},
    ],
)
def test_halving_one_and_doubling_the_other_is_allowed(changes: dict[str, int]) -> None:
    assert refuse_edit(HF, changes, (), ()) is None


@pytest.mark.parametrize(
    ("changes", "remove"),
    [
        ({"per_device_train_batch_size": 4}, ()),
        ({"gradient_accumulation_steps": 4}, ()),
        ({"per_device_train_batch_size": 4, "gradient_accumulation_steps": 3}, ()),
        ({"per_device_train_batch_size": -4, "gradient_accumulation_steps": -4}, ()),
        ({"per_device_train_batch_size": 0}, ()),
        ({"per_device_train_batch_size": 4.0, "gradient_accumulation_steps": 4}, ()),
        ({"per_device_train_batch_size": "4", "gradient_accumulation_steps": 4}, ()),
        ({}, ("gradient_accumulation_steps",)),
        ({"per_device_train_batch_size": "auto"}, ()),
        ({"other.gradient_accumulation_steps": 2}, ()),
        ({"num_processes": 2}, ()),
    ],
)
def test_any_other_product_is_refused(changes: dict[str, int], remove: tuple[str, ...]) -> None:
    assert "batch" in str(refuse_edit(HF, changes, remove, ()))


def test_accumulation_that_is_not_there_counts_as_one() -> None:
    text = "per_device_train_batch_size: 8\n"
    added = {"per_device_train_batch_size": 4, "gradient_accumulation_steps": 2}
    assert refuse_edit(text, added, (), ()) is None


def test_devices_count_where_the_batch_is_per_device() -> None:
    text = "training:\n  per_device_train_batch_size: 8\n  n_gpus: 2\n"
    assert refuse_edit(text, {"training.n_gpus": 1}, (), ()) is not None
    half = {"training.n_gpus": 1, "training.per_device_train_batch_size": 16}
    assert refuse_edit(text, half, (), ()) is None


def test_devices_do_not_count_where_the_total_is_written_down() -> None:
    verl = "data: {train_batch_size: 64}\ntrainer: {nnodes: 2, n_gpus_per_node: 8}\n"
    assert refuse_edit(verl, {"trainer.nnodes": 1}, (), ()) is None
    nemo = "global_batch_size: 64\nmicro_batch_size: 8\n"
    assert refuse_edit(nemo, {"micro_batch_size": 2}, (), ()) is None
    assert refuse_edit("micro_batch_size: 8\n", {"micro_batch_size": 2}, (), ()) is not None


def test_a_total_left_to_the_trainer_is_no_total() -> None:
    text = "train_batch_size: auto\ntrain_micro_batch_size_per_gpu: 8\n"
    assert refuse_edit(text, {"train_micro_batch_size_per_gpu": 4}, (), ()) is not None


def test_a_plain_batch_may_be_counted_per_device_so_devices_stay() -> None:
    assert refuse_edit("batch_size: 32\nnum_gpus: 4\n", {"num_gpus": 2}, (), ()) is not None
    assert refuse_edit("num_gpus: 4\n", {"num_gpus": 2}, (), ()) is None


def test_generation_batches_keep_their_cut() -> None:
    trl = HF + "steps_per_generation: 4\n"
    changes = {"per_device_train_batch_size": 4, "gradient_accumulation_steps": 4}
    assert "steps_per_generation" in str(refuse_edit(trl, changes, (), ()))


def test_verl_micro_batches_are_free_and_mini_batches_are_not() -> None:
    verl = "data: {train_batch_size: 64}\nactor: {ppo_mini_batch_size: 32, ppo_micro_batch_size_per_gpu: 8}\n"
    assert refuse_edit(verl, {"actor.ppo_micro_batch_size_per_gpu": 1}, (), ()) is None
    assert refuse_edit(verl, {"actor.ppo_mini_batch_size": 16}, (), ()) is not None
    assert refuse_edit(verl, {"data.train_batch_size": 32}, (), ()) is not None
