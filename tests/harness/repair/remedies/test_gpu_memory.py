"""Memory of the GPU: values that follow from what was measured, and no further than is sensible."""

import pytest

from harness.guard import science
from harness.repair.remedies.settings import Settings
from tests.harness.repair.remedies.samples import (
    AJET,
    HUGGINGFACE,
    PLAIN,
    QUICKSTART,
    VERL,
    edits,
    remedy,
    situation,
    variables,
)

SHARE = "actor_rollout_ref.rollout.gpu_memory_utilization"
ALLOCATOR = "PYTORCH_CUDA_ALLOC_CONF"
FRAGMENTED = {"tried": "2.00 GiB", "reserved": "9.00 GiB", "free": "0.50 GiB"}


def verl(share: float) -> str:
    return VERL.replace("0.6", str(share))


class TestShare:
    def test_it_is_lowered_by_what_was_missing(self) -> None:
        missing = {"tried": "12.00 GiB", "free": "4.00 GiB", "total": "80.00 GiB"}
        assert edits("lower_gpu_memory_utilization", VERL, captures=missing) == {SHARE: 0.48}

    def test_by_a_little_where_little_was_missing(self) -> None:
        missing = {"tried": "20.00 MiB", "free": "10.00 MiB", "total": "80.00 GiB"}
        assert edits("lower_gpu_memory_utilization", VERL, captures=missing) == {SHARE: 0.55}

    def test_to_what_is_free_where_the_engine_asked_for_more_at_its_start(self) -> None:
        asked = {"utilization": "0.9", "free": "60.00 GiB", "total": "80.00 GiB"}
        assert edits("lower_gpu_memory_utilization", verl(0.9), captures=asked) == {SHARE: 0.73}

    @pytest.mark.parametrize("captures", [{}, {"tried": "?"}, {"tried": "1 GiB", "total": "80 GiB"}])
    def test_by_a_tenth_where_nothing_was_measured(self, captures: dict[str, str]) -> None:
        assert edits("lower_gpu_memory_utilization", VERL, captures=captures) == {SHARE: 0.5}

    def test_there_is_a_floor(self) -> None:
        assert edits("lower_gpu_memory_utilization", verl(0.25)) == {SHARE: 0.2}
        assert edits("lower_gpu_memory_utilization", verl(0.2)) == {}

    def test_it_is_raised_by_what_the_cache_lacks_up_to_a_ceiling(self) -> None:
        lacks = {"needed": "5.6 GiB", "free": "1.6 GiB", "total": "40 GiB"}
        assert edits("raise_gpu_memory_utilization", VERL, captures=lacks) == {SHARE: 0.72}
        assert edits("raise_gpu_memory_utilization", VERL) == {SHARE: 0.7}
        assert edits("raise_gpu_memory_utilization", verl(0.9)) == {SHARE: 0.92}
        assert edits("raise_gpu_memory_utilization", verl(0.92)) == {}

    def test_every_tree_has_its_own_key(self) -> None:
        assert edits("lower_gpu_memory_utilization", AJET) == {"ajet.rollout.gpu_memory_utilization": 0.75}
        assert edits("lower_gpu_memory_utilization", HUGGINGFACE) == {"vllm_gpu_memory_utilization": 0.3}

    def test_not_where_it_would_change_nothing(self) -> None:
        assert edits("lower_gpu_memory_utilization", QUICKSTART) == {}
        assert edits("lower_gpu_memory_utilization", PLAIN) == {}


class TestOffloading:
    def test_what_is_off_goes_on(self) -> None:
        section = "ajet.trainer_common.fsdp_config"
        assert edits("offload_optimizer", AJET) == {f"{section}.optimizer_offload": True}
        assert edits("offload_parameters", AJET) == {f"{section}.param_offload": True}

    def test_defaults_count(self) -> None:
        key = "actor_rollout_ref.actor.fsdp_config.optimizer_offload"
        assert edits("offload_optimizer", VERL) == {key: True}

    def test_what_is_on_stays(self) -> None:
        on = AJET.replace("optimizer_offload: false", "optimizer_offload: true")
        assert edits("offload_optimizer", on) == {}


def test_checkpointing_of_activations() -> None:
    key = "actor_rollout_ref.model.enable_gradient_checkpointing"
    assert edits("gradient_checkpointing", VERL) == {key: True}
    assert edits("gradient_checkpointing", HUGGINGFACE) == {"gradient_checkpointing": True}
    assert edits("gradient_checkpointing", PLAIN) == {}, "nobody knows whether this program has it"


def test_fewer_sequences_but_a_few() -> None:
    key = "ajet.rollout.max_num_seqs"
    assert edits("lower_concurrent_sequences", AJET) == {key: 32}
    assert edits("lower_concurrent_sequences", AJET.replace("seqs: 64", "seqs: 5")) == {key: 4}
    assert edits("lower_concurrent_sequences", AJET.replace("seqs: 64", "seqs: 4")) == {}


class TestSegments:
    def test_only_where_fragmentation_was_measured(self) -> None:
        name, config = "expandable_segments", PLAIN
        assert variables(name, config, captures=FRAGMENTED) == {ALLOCATOR: "expandable_segments:True"}
        assert variables(name, config, captures={**FRAGMENTED, "reserved": "300.00 MiB"}) == {}
        assert variables(name, config) == {}, "a hint in a log is no measurement"

    def test_not_with_an_engine_that_sleeps(self) -> None:
        for config in (VERL, AJET, HUGGINGFACE + "vllm_enable_sleep_mode: true\n"):
            assert variables("expandable_segments", config, captures=FRAGMENTED) == {}
        awake = VERL.replace("name: vllm", "name: vllm\n    free_cache_engine: false")
        assert variables("expandable_segments", awake, captures=FRAGMENTED) != {}

    def test_other_settings_of_the_allocator_stay(self) -> None:
        before = {ALLOCATOR: "max_split_size_mb:128"}
        both = {ALLOCATOR: "max_split_size_mb:128,expandable_segments:True"}
        assert variables("expandable_segments", PLAIN, environment=before, captures=FRAGMENTED) == both
        dropped = variables("drop_expandable_segments", VERL, environment=both)
        assert dropped == {ALLOCATOR: "max_split_size_mb:128,expandable_segments:False"}
        assert variables("drop_expandable_segments", VERL, environment=dropped) == {}


def test_not_where_cuda_divides_memory_itself() -> None:
    own = {ALLOCATOR: "backend:cudaMallocAsync"}
    assert variables("expandable_segments", PLAIN, environment=own, captures=FRAGMENTED) == {}
    assert variables("drop_expandable_segments", PLAIN, environment=own) == {}


def test_without_the_compiler() -> None:
    assert edits("torch_compile_off", HUGGINGFACE) == {"torch_compile": False}
    assert variables("torch_compile_off", PLAIN) == {"TORCH_COMPILE_DISABLE": "1"}


def test_another_attention_only_where_flash_attention_is_asked_for() -> None:
    assert edits("without_flash_attention", HUGGINGFACE) == {"attn_implementation": "sdpa"}
    assert edits("without_flash_attention", HUGGINGFACE.replace("flash_attention_2", "eager")) == {}


FLASH = "attn_implementation: flash_attention_2\n"
OF_VERL = "actor_rollout_ref: {model: {%soverride_config: {attn_implementation: flash_attention_2}}}\n"


@pytest.mark.parametrize(
    ("config", "command", "may_change"),
    [
        (FLASH, "trl sft --config c.yaml", True),
        (FLASH + "packing: false\n", "trl sft", True),
        (FLASH + "packing: true\n", "trl sft", False),
        (FLASH + "train: {padding_free: true}\n", "trl sft", False),
        (FLASH + "sample_packing: true\n", "axolotl train c.yaml", False),
        (FLASH + "data: {flatten: 'yes'}\n", "python t.py", False),
        (FLASH, "trl sft --packing", False),
        (FLASH + "packing: true\n", "trl sft --packing false", True),
        (FLASH + "packing: true\n", "trl sft --eval_packing false", False),
        (FLASH, "trl sft --padding-free=true", False),
        (OF_VERL % "", "", False),
        (OF_VERL % "use_remove_padding: true, ", "", False),
        (OF_VERL % "use_remove_padding: false, ", "", True),
        (OF_VERL % "use_remove_padding: false, ", "x actor_rollout_ref.model.use_remove_padding=True", False),
        (OF_VERL % "", "x actor_rollout_ref.model.use_remove_padding=False", True),
    ],
)
def test_packed_sequences_keep_the_attention_that_parts_them(
    config: str, command: str, may_change: bool
) -> None:
    assert bool(edits("without_flash_attention", config, command=command)) is may_change
    alone = situation(config, command=command, facts={"refuses": lambda repair: None})
    assert bool(remedy("without_flash_attention", alone)) is may_change, "without the rules too"
    key = next(key for key in Settings.read(config).values if key.endswith("attn_implementation"))
    assert (science.refuse_edit(config, {key: "sdpa"}, (), (), command) is None) is may_change


def test_less_main_memory_for_waiting_sequences() -> None:
    assert edits("lower_swap_space", "engine: {swap_space: 16}") == {"engine.swap_space": 8}
    assert edits("lower_swap_space", "engine: {swap_space: 0}") == {}
