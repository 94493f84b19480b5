"""The effective batch may be cut up differently, never changed."""

import pytest

from harness.guard.science import refuse_edit

TRL = "trl sft --config c.yaml"
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
    assert refuse_edit(text, added, (), (), TRL) is None
    assert refuse_edit(text, added, (), (), "accelerate launch train.py c.yaml") is not None, "who reads it?"


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
    both = {"batch_size": 64, "num_gpus": 2}
    assert refuse_edit("batch_size: 32\nnum_gpus: 4\n", both, (), ()) is not None
    assert refuse_edit("num_gpus: 4\n", {"num_gpus": 2}, (), ()) is not None, "code may hold a batch per GPU"


@pytest.mark.parametrize(
    ("changes", "remove"),
    [
        ({"per_device_train_batch_size": 4, "num_machines": 2}, ()),
        ({"per_device_train_batch_size": 4, "world_size": 2}, ()),
        ({"per_device_train_batch_size": 4, "data_parallel_size": 2}, ()),
        ({"per_device_train_batch_size": 4, "grad_accum": 2}, ()),
        ({"per_device_train_batch_size": 4, "logging.gradient_accumulation_steps": 2}, ()),
        ({"per_device_train_batch_size": 4, "accumulate_grad_batches": 2}, ()),
        ({"gradient_accumulation_steps": 4, "tensor_parallel_size": 2}, ()),
        ({"batch_size_per_gpu": 8}, ("per_device_train_batch_size",)),
        ({"grad_accum": 2}, ("gradient_accumulation_steps",)),
        ({"per_device_train_batch_size": 16}, ("gradient_accumulation_steps",)),
    ],
)
def test_a_factor_that_the_trainer_may_not_read_does_not_count(
    changes: dict[str, int], remove: tuple[str, ...]
) -> None:
    assert "given another value, where it stands" in str(refuse_edit(HF, changes, remove, ()))


def test_added_accumulation_stands_beside_the_batch_under_the_name_that_trainers_read() -> None:
    text = "train: {per_device_train_batch_size: 8}\nother: {a: 1}\n"
    half = {"train.per_device_train_batch_size": 4}
    for key, allowed in (
        ("train.gradient_accumulation_steps", True),
        ("other.gradient_accumulation_steps", False),
        ("gradient_accumulation_steps", False),
        ("train.gradientAccumulationSteps", False),
        ("train.grad_accum", False),
    ):
        assert (refuse_edit(text, half | {key: 2}, (), (), TRL) is None) is allowed, key


def test_a_plain_batch_is_halved_where_the_author_wrote_the_accumulation() -> None:
    text = "train: {batch_size: 64, grad_accum: 1}\nvalidation: {batch_size: 64}\n"
    assert refuse_edit(text, {"train.batch_size": 32, "train.grad_accum": 2}, (), ()) is None
    assert refuse_edit(text, {"train.batch_size": 32, "train.grad_accum": 4}, (), ()) is not None
    assert refuse_edit(text, {"train.batch_size": 32}, (), ()) is not None
    added = {"batch_size": 32, "grad_accum": 2}
    assert refuse_edit("batch_size: 64\n", added, (), ()) is not None, "nobody may read it"


def test_devices_that_share_a_batch_divide_it() -> None:
    text = HF + "sequence_parallel_degree: 1\nnum_gpus: 8\n"
    assert "1/2 of what it was" in str(refuse_edit(text, {"sequence_parallel_degree": 2}, (), ()))
    kept = {"sequence_parallel_degree": 2, "gradient_accumulation_steps": 4}
    assert refuse_edit(text, kept, (), ()) is None
    assert refuse_edit(HF, {"vllm_tensor_parallel_size": 2}, (), ()) is None, "inference has no batch"


def test_only_clear_names_are_totals() -> None:
    for name in ("train_batch_size", "total_batch_size", "mini_batch_size", "batch_size"):
        text = f"{name}: 64\nper_device_train_batch_size: 8\nnum_gpus: 8\n"
        assert refuse_edit(text, {"num_gpus": 4}, (), ()) is not None, name


def test_a_total_does_not_trade_against_devices() -> None:
    verl = "data: {train_batch_size: 64}\ntrainer: {nnodes: 1, n_gpus_per_node: 8}\n"
    changes = {"data.train_batch_size": 32, "trainer.nnodes": 2}
    assert "data.train_batch_size" in str(refuse_edit(verl, changes, (), ()))


def test_generation_batches_keep_their_cut() -> None:
    trl = HF + "steps_per_generation: 4\n"
    changes = {"per_device_train_batch_size": 4, "gradient_accumulation_steps": 4}
    assert "steps_per_generation" in str(refuse_edit(trl, changes, (), ()))


@pytest.mark.parametrize(
    "name", ["limit_train_batches", "limit_val_batches", "overfit_batches", "val_check_interval"]
)
def test_what_is_counted_in_pieces_keeps_the_pieces(name: str) -> None:
    changes = {"per_device_train_batch_size": 4, "gradient_accumulation_steps": 4}
    assert f"`{name}` counts" in str(refuse_edit(f"{HF}trainer: {{{name}: 100}}\n", changes, (), ()))
    assert f"`{name}` counts" in str(refuse_edit(HF, changes, (), (), f"python t.py --trainer.{name} 100"))


def test_a_factor_that_the_command_gives_stays_out_of_the_sum() -> None:
    changes = {"per_device_train_batch_size": 4, "gradient_accumulation_steps": 4}
    assert "launch command" in str(refuse_edit(HF, changes, (), (), "python t.py --train_batch_size 64"))
    assert refuse_edit(HF, changes, (), (), "torchrun --nproc_per_node 8 t.py") is None


def test_a_training_is_not_divided_otherwise_where_its_batches_are_not_told() -> None:
    text = "training: {local_batch_size: 8}\nparallelism: {tensor_parallel_size: 4}\n"
    assert "cannot be told" in str(refuse_edit(text, {"parallelism.tensor_parallel_size": 2}, (), ()))


def test_where_total_and_accumulation_are_both_told_the_product_stays() -> None:
    text = "global_batch_size: 64\nmicro_batch_size: 8\ngradient_accumulation_steps: 8\n"
    assert refuse_edit(text, {"micro_batch_size": 4}, (), ()) is not None
    both = {"micro_batch_size": 4, "gradient_accumulation_steps": 16}
    assert refuse_edit(text, both, (), ()) is None


def test_verl_micro_batches_are_free_and_mini_batches_are_not() -> None:
    verl = "data: {train_batch_size: 64}\nactor: {ppo_mini_batch_size: 32, ppo_micro_batch_size_per_gpu: 8}\n"
    assert refuse_edit(verl, {"actor.ppo_micro_batch_size_per_gpu": 1}, (), ()) is None
    assert refuse_edit(verl, {"actor.ppo_mini_batch_size": 16}, (), ()) is not None
    assert refuse_edit(verl, {"data.train_batch_size": 32}, (), ()) is not None


def test_what_follows_a_factor_by_reference_is_one_too() -> None:
    verl = "data: {train_batch_size: 64}\ntrainer: {nnodes: 2, n_gpus_per_node: 8}\n"
    verl += "reward_model: {nnodes: '${trainer.nnodes}'}\n"
    assert refuse_edit(verl, {"trainer.nnodes": 1}, (), ()) is None
    text = "per_device_train_batch_size: 8\ngradient_accumulation_steps: '${save_steps}'\nsave_steps: 2\n"
    assert "batch" in str(refuse_edit(text, {"save_steps": 4}, (), ()))
