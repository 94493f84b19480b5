"""The effective batch may be cut up differently, never changed: a table of (config, edit, verdict)."""

import pytest

from harness.guard.science import refuse_edit

TRL = "trl sft --config c.yaml"
SIZE, STEPS = "per_device_train_batch_size", "gradient_accumulation_steps"
HF = f"{SIZE}: 8\n{STEPS}: 2\nlearning_rate: 1e-5\n"
HALF = {SIZE: 4, STEPS: 4}
DEVICES = f"training:\n  {SIZE}: 8\n  n_gpus: 2\n"
VERL = "data: {train_batch_size: 64}\ntrainer: {nnodes: 2, n_gpus_per_node: 8}\n"
MINI = "data: {train_batch_size: 64}\nactor: {ppo_mini_batch_size: 32, ppo_micro_batch_size_per_gpu: 8}\n"
PLAIN = "train: {batch_size: 64, grad_accum: 1}\nvalidation: {batch_size: 64}\n"
BESIDE = f"train: {{{SIZE}: 8}}\nother: {{a: 1}}\n"
BOTH = f"global_batch_size: 64\nmicro_batch_size: 8\n{STEPS}: 8\n"
SHARED = HF + "sequence_parallel_degree: 1\nnum_gpus: 8\n"
ALLOWED = [
    (HF, HALF, ""),
    (HF, {SIZE: 1, STEPS: 16}, ""),
    (HF, {SIZE: 16, STEPS: 1}, ""),
    (f"{SIZE}: 8\n", {SIZE: 4, STEPS: 2}, TRL),  # accumulation that is not there counts as one
    (BESIDE, {f"train.{SIZE}": 4, f"train.{STEPS}": 2}, TRL),
    (DEVICES, {"training.n_gpus": 1, f"training.{SIZE}": 16}, ""),
    (VERL, {"trainer.nnodes": 1}, ""),  # the total is written down
    (VERL + "reward_model: {nnodes: '${trainer.nnodes}'}\n", {"trainer.nnodes": 1}, ""),
    ("global_batch_size: 64\nmicro_batch_size: 8\n", {"micro_batch_size": 2}, ""),
    (PLAIN, {"train.batch_size": 32, "train.grad_accum": 2}, ""),
    (SHARED, {"sequence_parallel_degree": 2, STEPS: 4}, ""),
    (HF, {"vllm_tensor_parallel_size": 2}, ""),  # inference has no batch
    (HF, HALF, "torchrun --nproc_per_node 8 t.py"),
    (BOTH, {"micro_batch_size": 4, STEPS: 16}, ""),
    (MINI, {"actor.ppo_micro_batch_size_per_gpu": 1}, ""),
]
PRODUCT, NOT_READ = "batch", "given another value, where it stands"
REFUSED = [
    *((HF, changes, "", PRODUCT) for changes in (
        {SIZE: 4}, {STEPS: 4}, {SIZE: 4, STEPS: 3}, {SIZE: -4, STEPS: -4}, {SIZE: 0}, {SIZE: 4.0, STEPS: 4},
        {SIZE: "4", STEPS: 4}, {STEPS: None}, {SIZE: "auto"}, {f"other.{STEPS}": 2}, {"num_processes": 2},
    )),
    *((HF, changes, "", NOT_READ) for changes in (
        {SIZE: 4, "num_machines": 2}, {SIZE: 4, "world_size": 2}, {SIZE: 4, "data_parallel_size": 2},
        {SIZE: 4, "grad_accum": 2}, {SIZE: 4, f"logging.{STEPS}": 2}, {SIZE: 4, "accumulate_grad_batches": 2},
        {STEPS: 4, "tensor_parallel_size": 2}, {"batch_size_per_gpu": 8, SIZE: None},
        {"grad_accum": 2, STEPS: None}, {SIZE: 16, STEPS: None},
    )),
    *((BESIDE, {f"train.{SIZE}": 4, key: 2}, TRL, PRODUCT) for key in (
        f"other.{STEPS}", STEPS, "train.gradientAccumulationSteps", "train.grad_accum",
    )),
    *((f"{name}: 64\n{SIZE}: 8\nnum_gpus: 8\n", {"num_gpus": 4}, "", PRODUCT) for name in (
        "train_batch_size", "total_batch_size", "mini_batch_size", "batch_size",  # none is clearly a total
    )),
    *((f"{HF}trainer: {{{name}: 100}}\n", HALF, "", f"`{name}` counts") for name in (
        "limit_train_batches", "limit_val_batches", "overfit_batches", "val_check_interval",
    )),
    (HF, HALF, "python t.py --trainer.overfit_batches 100", "`overfit_batches` counts"),
    (HF + "steps_per_generation: 4\n", HALF, "", "steps_per_generation"),
    (HF, HALF, "python t.py --train_batch_size 64", "cannot be told"),
    (f"{SIZE}: 8\n", {SIZE: 4, STEPS: 2}, "accelerate launch train.py c.yaml", NOT_READ),
    (DEVICES, {"training.n_gpus": 1}, "", PRODUCT),
    ("micro_batch_size: 8\n", {"micro_batch_size": 2}, "", PRODUCT),
    ("train_batch_size: auto\ntrain_micro_batch_size_per_gpu: 8\n", {"train_micro_batch_size_per_gpu": 4}, "",
     PRODUCT),
    ("batch_size: 32\nnum_gpus: 4\n", {"num_gpus": 2}, "", PRODUCT),  # it may be counted per device
    ("batch_size: 32\nnum_gpus: 4\n", {"batch_size": 64, "num_gpus": 2}, "", PRODUCT),
    ("num_gpus: 4\n", {"num_gpus": 2}, "", PRODUCT),  # code may hold a batch per GPU
    (PLAIN, {"train.batch_size": 32, "train.grad_accum": 4}, "", PRODUCT),
    (PLAIN, {"train.batch_size": 32}, "", PRODUCT),
    ("batch_size: 64\n", {"batch_size": 32, "grad_accum": 2}, "", NOT_READ),
    (SHARED, {"sequence_parallel_degree": 2}, "", "1/2 of what it was"),
    (VERL, {"data.train_batch_size": 32, "trainer.nnodes": 4}, "", "data.train_batch_size"),
    ("training: {local_batch_size: 8}\nparallelism: {tensor_parallel_size: 4}\n",
     {"parallelism.tensor_parallel_size": 2}, "", "cannot be told"),
    (BOTH, {"micro_batch_size": 4}, "", PRODUCT),
    (MINI, {"actor.ppo_mini_batch_size": 16}, "", PRODUCT),
    (MINI, {"data.train_batch_size": 32}, "", PRODUCT),
    (f"{SIZE}: 8\n{STEPS}: '${{save_steps}}'\nsave_steps: 2\n", {"save_steps": 4}, "", PRODUCT),
]  # fmt: skip


def test_another_cut_of_the_same_batch_is_allowed() -> None:
    refused = [(edit, refuse_edit(text, edit, (), (), command)) for text, edit, command in ALLOWED]
    assert [each for each in refused if each[1] is not None] == []


@pytest.mark.parametrize(("text", "changes", "command", "why"), REFUSED)
def test_any_other_product_is_refused(text: str, changes: dict[str, object], command: str, why: str) -> None:
    removed = tuple(key for key, value in changes.items() if value is None)
    edits = {key: value for key, value in changes.items() if value is not None}
    assert why in str(refuse_edit(text, edits, removed, (), command))  # type: ignore[arg-type]
