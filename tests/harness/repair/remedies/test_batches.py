"""Smaller pieces, the same batch."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.harness.repair.remedies.samples import AJET, HUGGINGFACE, PLAIN, QUICKSTART, VERL, edits

SIZE, STEPS = "per_device_train_batch_size", "gradient_accumulation_steps"


class TestMicroBatch:
    def test_where_the_total_is_written_only_the_pieces_change(self) -> None:
        assert edits("halve_micro_batch", VERL) == {
            "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu": 4,
            "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu": 8,
            "actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu": 8,
        }

    def test_not_where_pieces_are_cut_by_tokens(self) -> None:
        dynamic = VERL.replace("ppo_mini_batch_size", "use_dynamic_bsz: true\n    ppo_mini_batch_size")
        key = "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu"
        assert key not in edits("halve_micro_batch", dynamic)

    @given(st.integers(2, 64), st.integers(1, 64))
    def test_elsewhere_accumulation_takes_what_it_loses(self, size: int, steps: int) -> None:
        found = edits("halve_micro_batch", f"{SIZE}: {size}\n{STEPS}: {steps}\n")
        assert found[SIZE] < size and found[SIZE] * found[STEPS] == size * steps

    @pytest.mark.parametrize(
        ("command", "is_read"),
        [
            ("trl sft --config config.yaml", True),
            ("/v/bin/llamafactory-cli train config.yaml", True),
            ("accelerate launch -m axolotl.cli.train config.yaml", True),
            ("torchrun examples/run_clm.py config.yaml", True),
            ("python train.py config.yaml", False),
            ("accelerate launch train.py config.yaml", False),
            ("deepspeed train.py --config config.yaml", False),
            ("python mytrl train config.yaml", False),
            ("", False),
        ],
    )
    def test_accumulation_is_added_only_where_it_is_known_to_be_read(
        self, command: str, is_read: bool
    ) -> None:
        added = {SIZE: 4, STEPS: 2} if is_read else {}
        assert edits("halve_micro_batch", f"{SIZE}: 8\n", command=command) == added

    def test_what_the_command_gives_holds_and_is_changed_there(self) -> None:
        both = f"{SIZE}: 8\n{STEPS}: 2\n"
        given = {"--gradient-accumulation-steps 4": (4, 8), f"--{SIZE}=16": (8, 4)}
        for told, (size, steps) in given.items():
            found = edits("halve_micro_batch", both, command=f"trl sft --config c.yaml {told}")
            assert found == {SIZE: size, STEPS: steps}, told
        assert edits("halve_micro_batch", both, command="trl sft --config c.yaml train.batch_size=4") == {}

    def test_a_total_that_is_not_told_is_none(self) -> None:
        text = f"micro_batch_size: 8\n{STEPS}: 4\nglobal_batch_size: %s\n"
        halved = {"micro_batch_size": 4, STEPS: 8}
        assert edits("halve_micro_batch", text % "null") == halved
        assert edits("halve_micro_batch", text % "256") == halved, "nobody knows which of the two is read"
        assert edits("halve_micro_batch", "micro_batch_size: 8\nglobal_batch_size: null\n") == {}
        assert edits("halve_micro_batch", "micro_batch_size: 8\nglobal_batch_size: 64\n") == {
            "micro_batch_size": 4
        }

    def test_no_time_is_lost_on_sizes_that_no_batch_has(self) -> None:
        assert edits("halve_micro_batch", f"{SIZE}: 1000000000000000003\n{STEPS}: 1\n") == {}
        found = edits("halve_micro_batch", f"{SIZE}: 999999937\n{STEPS}: 1\n")
        assert found == {SIZE: 1, STEPS: 999999937}, "a prime"
        assert edits("halve_micro_batch", "batch_size: 8\n") == {}
        assert edits("halve_micro_batch", PLAIN) == {"train.batch_size": 8, "train.grad_accum": 2}

    @pytest.mark.parametrize("config", [f"{SIZE}: 1\n", QUICKSTART, AJET, "batch: 8\n"])
    def test_not_where_nothing_can_be_halved(self, config: str) -> None:
        assert edits("halve_micro_batch", config) == {}

    def test_not_where_it_is_protected(self) -> None:
        assert edits("halve_micro_batch", HUGGINGFACE, protected=(STEPS,)) == {}


class TestTokens:
    def test_never_less_than_the_longest_sequence(self) -> None:
        key = "ajet.rollout.ppo_max_token_len_per_gpu"
        assert edits("lower_tokens_per_gpu", AJET) == {key: 9000}
        assert edits("lower_tokens_per_gpu", AJET.replace("18000", "9000")) == {key: 8000}
        assert edits("lower_tokens_per_gpu", AJET.replace("18000", "8000")) == {}

    def test_not_where_lengths_are_not_known(self) -> None:
        assert edits("lower_tokens_per_gpu", "a: {ppo_max_token_len_per_gpu: 16000}") == {}

    def test_the_default_counts_where_it_is_read(self) -> None:
        key = "actor_rollout_ref.actor.ppo_max_token_len_per_gpu"
        assert key not in edits("lower_tokens_per_gpu", VERL)
        dynamic = VERL.replace("ppo_mini_batch_size", "use_dynamic_bsz: true\n    ppo_mini_batch_size")
        assert edits("lower_tokens_per_gpu", dynamic)[key] == 8192


class TestTensorParallel:
    KEY = "actor_rollout_ref.rollout.tensor_model_parallel_size"

    @pytest.mark.parametrize(("heads", "size"), [("14", 2), ("28", 2), ("15", 1), ("", 2)])
    def test_a_divisor_of_heads_and_gpus(self, heads: str, size: int) -> None:
        assert edits("smaller_tensor_parallel", VERL, captures={"heads": heads}) == {self.KEY: size}

    def test_no_more_gpus_than_there_are(self) -> None:
        few = {"needed": "4", "total": "1"}
        assert edits("smaller_tensor_parallel", VERL, captures=few) == {self.KEY: 1}
        assert edits("smaller_tensor_parallel", "rollout: {tp_size: 8}\n") == {"rollout.tp_size": 4}

    @pytest.mark.parametrize(
        "config",
        [
            "tp_size: 8\n",
            "tensor_model_parallel_size: 4\nbs: 8\n",
            "training: {local_batch_size: 8}\nparallelism: {tensor_parallel_size: 4}\n",
            "actor_rollout_ref: {actor: {megatron: {tensor_model_parallel_size: 4}}, rollout: {"
            "tensor_model_parallel_size: 1}}\n",
        ],
    )
    def test_not_of_a_training_where_it_changes_how_many_batches_there_are(self, config: str) -> None:
        assert edits("smaller_tensor_parallel", config) == {}

    def test_an_engine_beside_a_training(self) -> None:
        assert edits("smaller_tensor_parallel", "vllm_tensor_parallel_size: 4\n") == {
            "vllm_tensor_parallel_size": 2
        }

    def test_one_gpu_is_the_least(self) -> None:
        one = VERL.replace("parallel_size: 4", "parallel_size: 1")
        assert edits("smaller_tensor_parallel", one, captures={"heads": "14"}) == {}


class TestEngineLength:
    KEY = "ajet.rollout.max_model_len"

    def test_raised_to_what_prompt_and_response_need(self) -> None:
        assert edits("fit_max_model_len", AJET) == {self.KEY: 8000}

    def test_lowered_to_it_where_the_cache_is_short(self) -> None:
        long = AJET.replace("max_model_len: 4000", "max_model_len: 32000")
        assert edits("fit_max_model_len", long, family="kv_cache_budget") == {self.KEY: 8000}
        assert edits("fit_max_model_len", long, family="length_limit") == {}

    def test_not_above_what_the_model_can(self) -> None:
        assert edits("fit_max_model_len", AJET, captures={"limit": "4096"}) == {}

    def test_not_where_it_fits_or_lengths_are_not_known(self) -> None:
        assert edits("fit_max_model_len", AJET.replace("max_model_len: 4000", "max_model_len: 8000")) == {}
        assert edits("fit_max_model_len", "max_model_len: 4000") == {}
