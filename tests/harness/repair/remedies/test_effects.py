"""What each remedy sets: a table of (remedy, config, what it comes to, the circumstances)."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.config.packages import known_packages, package_of
from harness.repair.remedies.situation import gib, whole
from tests.harness.repair.remedies.samples import AJET, HUGGINGFACE, PLAIN, QUICKSTART, VERL, remedy, values

SIZE, STEPS = "per_device_train_batch_size", "gradient_accumulation_steps"
ROLLOUT, ACTOR = "actor_rollout_ref.rollout", "actor_rollout_ref.actor"
SHARE, TP = f"{ROLLOUT}.gpu_memory_utilization", f"{ROLLOUT}.tensor_model_parallel_size"
LENGTH, SEQS, TOKENS = (
    f"ajet.rollout.{name}" for name in ("max_model_len", "max_num_seqs", "ppo_max_token_len_per_gpu")
)
FSDP = "ajet.trainer_common.fsdp_config"
ALLOCATOR = "PYTORCH_CUDA_ALLOC_CONF"
DYNAMIC = VERL.replace("ppo_mini_batch_size", "use_dynamic_bsz: true\n    ppo_mini_batch_size")
AWAKE = VERL.replace("name: vllm", "name: vllm\n    free_cache_engine: false")
LONG = AJET.replace("max_model_len: 4000", "max_model_len: 32000")
TWO_THREADS = {"OMP_NUM_THREADS": "2", "OPENBLAS_NUM_THREADS": "2"}
LOADER = "loader: {num_workers: %d, %s}\n"
FRAGMENTED = {"tried": "2.00 GiB", "reserved": "9.00 GiB", "free": "0.50 GiB"}
OWN = {ALLOCATOR: "backend:cudaMallocAsync"}
SPLIT = {ALLOCATOR: "max_split_size_mb:128"}
BOTH = {ALLOCATOR: "max_split_size_mb:128,expandable_segments:True"}
NEITHER = {ALLOCATOR: "max_split_size_mb:128,expandable_segments:False"}


def verl(share: float) -> str:
    return VERL.replace("0.6", str(share))


def measured(**captures: str) -> dict[str, Any]:
    return {"captures": captures}


Row = tuple[str, str, dict[str, Any], dict[str, Any]]
LOWER, RAISE = (f"{name}_gpu_memory_utilization" for name in ("lower", "raise"))
SHARES: list[Row] = [
    (LOWER, VERL, {SHARE: 0.48}, measured(tried="12.00 GiB", free="4.00 GiB", total="80.00 GiB")),
    (LOWER, VERL, {SHARE: 0.55}, measured(tried="20.00 MiB", free="10.00 MiB", total="80.00 GiB")),
    (LOWER, verl(0.9), {SHARE: 0.73}, measured(utilization="0.9", free="60.00 GiB", total="80.00 GiB")),
    (LOWER, VERL, {SHARE: 0.5}, {}),
    (LOWER, VERL, {SHARE: 0.5}, measured(tried="?")),
    (LOWER, VERL, {SHARE: 0.5}, measured(tried="1 GiB", total="80 GiB")),
    (LOWER, verl(0.25), {SHARE: 0.2}, {}),
    (LOWER, verl(0.2), {}, {}),
    (LOWER, AJET, {"ajet.rollout.gpu_memory_utilization": 0.75}, {}),
    (LOWER, HUGGINGFACE, {"vllm_gpu_memory_utilization": 0.3}, {}),
    (LOWER, QUICKSTART, {}, {}),
    (LOWER, PLAIN, {}, {}),
    (RAISE, VERL, {SHARE: 0.72}, measured(needed="5.6 GiB", free="1.6 GiB", total="40 GiB")),
    (RAISE, VERL, {SHARE: 0.7}, {}),
    (RAISE, verl(0.9), {SHARE: 0.92}, {}),
    (RAISE, verl(0.92), {}, {}),
]
VERL_HALVED = {
    f"{ACTOR}.ppo_micro_batch_size_per_gpu": 4,
    f"{ROLLOUT}.log_prob_micro_batch_size_per_gpu": 8,
    "actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu": 8,
}
MICRO = f"micro_batch_size: 8\n{STEPS}: 4\nglobal_batch_size: %s\n"
BATCHES: list[Row] = [
    ("halve_micro_batch", VERL, VERL_HALVED, {}),
    ("halve_micro_batch", DYNAMIC, {key: VERL_HALVED[key] for key in list(VERL_HALVED)[1:]}, {}),
    ("halve_micro_batch", f"{SIZE}: 8\n{STEPS}: null\n", {}, {}),
    ("halve_micro_batch", "micro_batch_size: 8\nglobal_batch_size: null\n", {}, {}),
    ("halve_micro_batch", "micro_batch_size: 8\nglobal_batch_size: 64\n", {"micro_batch_size": 4}, {}),
    # which of the two is read is not known
    *(("halve_micro_batch", MICRO % each, {"micro_batch_size": 4, STEPS: 8}, {}) for each in ("null", "256")),
    ("halve_micro_batch", f"{SIZE}: 1000000000000000003\n{STEPS}: 1\n", {}, {}),
    ("halve_micro_batch", f"{SIZE}: 999999937\n{STEPS}: 1\n", {SIZE: 1, STEPS: 999999937}, {}),  # a prime
    ("halve_micro_batch", PLAIN, {"train.batch_size": 8, "train.grad_accum": 2}, {}),
    *(("halve_micro_batch", text, {}, {}) for text in (f"{SIZE}: 1\n", QUICKSTART, AJET, "batch_size: 8\n")),
    ("halve_micro_batch", HUGGINGFACE, {}, {"protected": (STEPS,)}),
    *(
        ("halve_micro_batch", f"{SIZE}: 8\n", {SIZE: 4, STEPS: 2} if is_read else {}, {"command": command})
        for command, is_read in (
            ("trl sft --config config.yaml", True),
            ("/v/bin/llamafactory-cli train config.yaml", True),
            ("accelerate launch -m axolotl.cli.train config.yaml", True),
            ("torchrun examples/run_clm.py config.yaml", True),
            ("python train.py config.yaml", False),
            ("accelerate launch train.py config.yaml", False),
            ("python mytrl train config.yaml", False),
            ("", False),
        )
    ),
    *(
        ("halve_micro_batch", f"{SIZE}: 8\n{STEPS}: 2\n", found, {"command": f"trl sft --config c {flag}"})
        for flag, found in (
            ("--gradient-accumulation-steps 4", {SIZE: 4, STEPS: 8}),
            (f"--{SIZE}=16", {SIZE: 8, STEPS: 4}),
            ("train.batch_size=4", {}),
        )
    ),
    ("lower_tokens_per_gpu", AJET, {TOKENS: 9000}, {}),
    ("lower_tokens_per_gpu", AJET.replace("18000", "9000"), {TOKENS: 8000}, {}),
    ("lower_tokens_per_gpu", AJET.replace("18000", "8000"), {}, {}),
    ("lower_tokens_per_gpu", "a: {ppo_max_token_len_per_gpu: 16000}", {}, {}),
    ("lower_tokens_per_gpu", VERL, {}, {}),
    ("lower_tokens_per_gpu", DYNAMIC, {f"{ACTOR}.ppo_max_token_len_per_gpu": 8192}, {}),
    *(
        ("smaller_tensor_parallel", VERL, {TP: size}, measured(heads=heads))
        for heads, size in (("14", 2), ("28", 2), ("15", 1), ("", 2))
    ),
    ("smaller_tensor_parallel", VERL, {TP: 1}, measured(needed="4", total="1")),
    ("smaller_tensor_parallel", "rollout: {tp_size: 8}\n", {"rollout.tp_size": 4}, {}),
    ("smaller_tensor_parallel", "vllm_tensor_parallel_size: 4\n", {"vllm_tensor_parallel_size": 2}, {}),
    ("smaller_tensor_parallel", VERL.replace("size: 4", "size: 1"), {}, measured(heads="14")),
    *(
        ("smaller_tensor_parallel", text, {}, {})  # of a training, it changes how many batches there are
        for text in (
            "tp_size: 8\n",
            "training: {local_batch_size: 8}\nparallelism: {tensor_parallel_size: 4}\n",
            "actor_rollout_ref: {actor: {megatron: {tensor_model_parallel_size: 4}}, rollout: {"
            "tensor_model_parallel_size: 1}}\n",
        )
    ),
    ("fit_max_model_len", AJET, {LENGTH: 8000}, {}),
    ("fit_max_model_len", LONG, {LENGTH: 8000}, {"family": "kv_cache_budget"}),
    ("fit_max_model_len", LONG, {}, {"family": "length_limit"}),
    ("fit_max_model_len", AJET, {}, measured(limit="4096")),
    ("fit_max_model_len", AJET.replace("max_model_len: 4000", "max_model_len: 8000"), {}, {}),
    ("fit_max_model_len", "max_model_len: 4000", {}, {}),
]
MEMORY: list[Row] = [
    ("offload_optimizer", AJET, {f"{FSDP}.optimizer_offload": True}, {}),
    ("offload_parameters", AJET, {f"{FSDP}.param_offload": True}, {}),
    ("offload_optimizer", VERL, {f"{ACTOR}.fsdp_config.optimizer_offload": True}, {}),  # the default
    ("offload_optimizer", AJET.replace("optimizer_offload: false", "optimizer_offload: true"), {}, {}),
    ("gradient_checkpointing", VERL, {"actor_rollout_ref.model.enable_gradient_checkpointing": True}, {}),
    ("gradient_checkpointing", HUGGINGFACE, {"gradient_checkpointing": True}, {}),
    ("gradient_checkpointing", PLAIN, {}, {}),
    ("lower_concurrent_sequences", AJET, {SEQS: 32}, {}),
    ("lower_concurrent_sequences", AJET.replace("seqs: 64", "seqs: 5"), {SEQS: 4}, {}),
    ("lower_concurrent_sequences", AJET.replace("seqs: 64", "seqs: 4"), {}, {}),
    ("lower_swap_space", "engine: {swap_space: 16}", {"engine.swap_space": 8}, {}),
    ("lower_swap_space", "engine: {swap_space: 0}", {}, {}),
    ("expandable_segments", PLAIN, {ALLOCATOR: "expandable_segments:True"}, measured(**FRAGMENTED)),
    ("expandable_segments", PLAIN, {}, measured(**{**FRAGMENTED, "reserved": "300.00 MiB"})),
    ("expandable_segments", PLAIN, {}, {}),
    *(
        ("expandable_segments", text, {}, measured(**FRAGMENTED))  # an engine that sleeps
        for text in (VERL, AJET, HUGGINGFACE + "vllm_enable_sleep_mode: true\n")
    ),
    ("expandable_segments", AWAKE, {ALLOCATOR: "expandable_segments:True"}, measured(**FRAGMENTED)),
    ("expandable_segments", PLAIN, BOTH, {"environment": SPLIT, **measured(**FRAGMENTED)}),
    ("expandable_segments", PLAIN, {}, {"environment": OWN, **measured(**FRAGMENTED)}),
    ("drop_expandable_segments", PLAIN, {}, {"environment": OWN}),
    ("drop_expandable_segments", VERL, NEITHER, {"environment": BOTH}),
    ("drop_expandable_segments", VERL, {}, {"environment": {ALLOCATOR: "expandable_segments:False"}}),
    ("torch_compile_off", HUGGINGFACE, {"torch_compile": False}, {}),
    ("torch_compile_off", PLAIN, {"TORCH_COMPILE_DISABLE": "1"}, {}),
    ("without_flash_attention", HUGGINGFACE, {"attn_implementation": "sdpa"}, {}),
    ("without_flash_attention", HUGGINGFACE.replace("flash_attention_2", "eager"), {}, {}),
]
ONLY_OLD = {"machine": {"is_cached": lambda model, revision: revision == "old"}}
SERVICES: list[Row] = [
    *(
        row
        for name, variable in (
            ("nccl_shm_off", "NCCL_SHM_DISABLE"),
            ("nccl_p2p_off", "NCCL_P2P_DISABLE"),
            ("nccl_ib_off", "NCCL_IB_DISABLE"),
            ("fault_handler", "PYTHONFAULTHANDLER"),
        )
        for row in (
            (name, VERL, {variable: "1"}, {}),
            (name, VERL, {}, {"environment": {variable: "1"}}),
            (name, VERL, {}, {"protected": (variable,)}),
            (name, VERL, {}, {"command": f"{variable}=0 python t.py"}),
        )
    ),
    ("longer_collective_timeout", VERL, {"actor_rollout_ref.nccl_timeout": 1200}, {}),
    ("longer_collective_timeout", "ddp_timeout: 5400\n", {"ddp_timeout": 7200}, {}),
    ("longer_collective_timeout", "ddp_timeout: 7200\n", {}, {}),
    ("keep_fewer_checkpoints", PLAIN, {"save_total_limit": 2}, {}),
    ("keep_fewer_checkpoints", VERL, {"trainer.max_actor_ckpt_to_keep": 2}, {}),
    ("keep_fewer_checkpoints", QUICKSTART, {"ajet.trainer_common.max_checkpoints_to_keep": 2}, {}),
    ("keep_fewer_checkpoints", "save_total_limit: 0\n", {"save_total_limit": 2}, {}),
    ("keep_fewer_checkpoints", "save_total_limit: 1\n", {}, {}),
    ("keep_fewer_checkpoints", "save_total_limit: 2\n", {}, {}),
    ("fewer_loader_workers", PLAIN, {"data.num_workers": 1}, {}),
    ("fewer_loader_workers", "data: {num_workers: 1}\n", {"data.num_workers": 0}, {}),
    ("fewer_loader_workers", "data: {num_workers: 0}\n", {}, {}),
    ("fewer_loader_workers", "train_dataloader: {num_workers: 8}\n", {"train_dataloader.num_workers": 4}, {}),
    ("fewer_loader_workers", HUGGINGFACE, {"dataloader_num_workers": 2}, {}),
    ("fewer_loader_workers", "rollout: {num_workers: 8}\n", {}, {}),  # they may collect experience
    ("fewer_loader_workers", "num_workers: 16\nalgo: a2c\n", {}, {}),
    ("fewer_loader_workers", LOADER % (1, "persistent_workers: true"), {}, {}),
    ("fewer_loader_workers", LOADER % (2, "prefetch_factor: 4"), {"loader.num_workers": 1}, {}),
    ("fewer_loader_workers", "num_proc: 2\n", {"num_proc": 1}, {}),
    ("fewer_loader_workers", "num_proc: 1\n", {}, {}),
    ("fewer_env_workers", AJET, {"ajet.rollout.max_env_worker": 32}, {}),
    ("fewer_env_workers", "num_envs: 8\nrollout: {env_workers: 8}\n", {"rollout.env_workers": 4}, {}),
    ("fewer_threads", "", TWO_THREADS, {"environment": {"OMP_NUM_THREADS": "64"}}),
    ("fewer_threads", "", dict.fromkeys(TWO_THREADS, "1"), {"environment": TWO_THREADS}),
    ("fewer_threads", "", {}, {"environment": dict.fromkeys(TWO_THREADS, "1")}),
    ("hub_offline", AJET, {"HF_HUB_OFFLINE": "1"}, {}),
    ("hub_offline", AJET, {}, {"machine": {"is_cached": lambda *_: False}}),
    ("hub_offline", PLAIN, {"HF_HUB_OFFLINE": "1"}, measured(model="org/model")),
    ("hub_offline", PLAIN, {}, {}),
    *(
        ("hub_offline", f"model_name_or_path: org/model\n{more}", found, {"command": command, **ONLY_OLD})
        for more, command, found in (
            ("", "", {}),
            ("model_revision: old\n", "", {"HF_HUB_OFFLINE": "1"}),
            ("model_revision: old\n", "t.py --model-revision new", {}),
            ("", "t.py --model_revision=old", {"HF_HUB_OFFLINE": "1"}),
        )
    ),
    ("tracker_offline", HUGGINGFACE, {"WANDB_MODE": "offline"}, {}),
    ("tracker_offline", AJET, {"SWANLAB_MODE": "offline"}, {}),
    ("tracker_offline", PLAIN, {"WANDB_MODE": "offline"}, {"cause": "wandb has no key"}),
    ("tracker_offline", HUGGINGFACE, {}, {"environment": {"WANDB_MODE": "offline"}}),
    ("tracker_offline", "report_to: mlflow\n", {"report_to": "none"}, {"cause": "mlflow is down"}),
    ("tracker_offline", "report_to: mlflow\n", {}, {"cause": "nothing known"}),
]
SERVER = "server: {port: 8000}\n"
OF_STORE = measured(port="29500")
STORE = {**OF_STORE, "cause": "The TCPStore cannot listen on port 29500."}
PORTS: list[Row] = [
    ("free_port", f"{SERVER}master_port: 29500\n", {"server.port": 31234}, measured(port="8000")),
    ("free_port", f"{SERVER}master_port: 29500\n", {"master_port": 31234}, measured(port="29500")),
    ("free_port", PLAIN, {}, {}),
    ("free_port", PLAIN, {}, measured(port="8265")),
    ("free_port", "redis: {host: localhost, port: 6379}\n", {}, {}),
    ("free_port", SERVER, {"server.port": 31234}, {}),
    ("free_port", SERVER, {}, {"machine": {"is_taken": lambda port: False}}),
    ("free_port", f"{SERVER}judge: {{port: 8001}}\n", {}, {}),  # which of the two?
    ("free_port", "server: {port: 8000, host: gpu-box-7}\n", {}, {}),
    *(
        ("free_port", text, dict.fromkeys(moved, 31234), measured(port="8000"))
        for text, moved in (
            ("judge: {host: gpu-box-7, port: 8000}\n", []),
            ("judge: {base_url: 'http://10.0.0.7', port: 8000}\n", []),
            ("judge_host: gpu-box-7\njudge_port: 8000\n", []),
            ("judge: {server_host: gpu-box-7, server_port: 8000}\nvllm_port: 8000\n", ["vllm_port"]),
            ("server: {host: 0.0.0.0, port: 8000}\n", ["server.port"]),
            (f"{SERVER}client: {{api: 'http://localhost:8000/v1'}}\n", []),
            (f"{SERVER}client: {{api: 'http://localhost:80001/v1'}}\n", ["server.port"]),
        )
    ),
    ("free_port", "store: {host: box, port: 29500}\n", {}, STORE),
    ("free_port", VERL, {"MASTER_PORT": "31234"}, STORE),
    ("free_port", VERL, {"PET_MASTER_PORT": "31234"}, {**STORE, "command": "torchrun -n 8 train.py"}),
    ("free_port", VERL, {}, {**STORE, "command": "torchrun --rdzv_endpoint=h:29500 train.py"}),
    ("free_port", VERL, {"MASTER_PORT": "31234"}, {**OF_STORE, "environment": {"MASTER_PORT": "29500"}}),
    ("free_port", AJET, {"ajet.interchange_server.interchange_server_port": 31234}, measured(port="18000")),
    ("free_port", AJET, {}, {**measured(port="18000"), "protected": ("interchange_server_port",)}),
]


TABLES = {"shares": SHARES, "batches": BATCHES, "memory": MEMORY, "services": SERVICES, "ports": PORTS}


@pytest.mark.parametrize("table", TABLES)
def test_what_a_remedy_sets(table: str) -> None:
    wrong = []
    for name, config, expected, circumstances in TABLES[table]:
        found = values(name, config, **circumstances)
        if found != expected:
            wrong.append((name, config[-120:], circumstances, "sets", found, "not", expected))
    assert wrong == []


@given(st.integers(2, 64), st.integers(1, 64))
def test_accumulation_takes_what_the_batch_loses(size: int, steps: int) -> None:
    found = values("halve_micro_batch", f"{SIZE}: {size}\n{STEPS}: {steps}\n")
    assert found[SIZE] < size and found[SIZE] * found[STEPS] == size * steps


def test_every_model_of_the_config_counts_with_its_revision() -> None:
    asked: list[tuple[str, str]] = []

    def is_cached(model: str, revision: str) -> bool:
        asked.append((model, revision))
        return model != "org/judge"

    two = VERL + "reward_model: {path: org/judge, revision: v2}\n"
    assert values("hub_offline", two, machine={"is_cached": is_cached}) == {}
    assert asked == [("Qwen/Qwen2.5-7B-Instruct", "main"), ("org/judge", "v2")]


NOTHING: dict[str, dict[str, Any]] = {
    "raise_open_files": {"open_files": lambda: (4096, 4096)},
    "free_leftovers": {"owned": lambda what: 0},
    "free_own_checkpoints": {"owned": lambda what: 0},
}


@pytest.mark.parametrize("name", NOTHING)
def test_what_changes_no_value_needs_something_to_do(name: str) -> None:
    found = remedy(name)
    assert found is not None and found.kind == ("limit" if name == "raise_open_files" else "free")
    assert remedy(name, machine=NOTHING[name]) is None


def test_a_changed_key_makes_it_a_repair_of_the_config() -> None:
    found = remedy("tracker_offline", "report_to: mlflow\n", cause="mlflow is down")
    assert found is not None and found.kind == "config"


@pytest.mark.parametrize(("times", "wait_s"), [(0, 30.0), (1, 60.0), (3, 240.0), (9, 900.0)])
def test_the_wait_doubles_up_to_a_quarter_of_an_hour(times: int, wait_s: float) -> None:
    found = remedy("wait_and_retry", transient=True, wait_s=30.0, tried=("wait_and_retry",) * times)
    assert found is not None and found.wait_s == wait_s
    assert remedy("wait_and_retry", wait_s=30.0) is None and remedy("resume_from_checkpoint") is None


KNOWN = {"cv2": "opencv-python-headless", "sklearn.metrics": "scikit-learn", "'yaml'": "PyYAML",
         "PIL.Image": "pillow", "Python_DotEnv": "python-dotenv"}  # fmt: skip


def test_only_known_packages_are_fetched_and_only_with_permission() -> None:
    assert {module: package_of(module) for module in KNOWN} == KNOWN
    assert {package_of(name) for name in ("utils", "my_reward", "torch", "flash_attn", "")} == {None}
    assert not [name for name in known_packages() if not re.fullmatch(r"[\w.-]+", name)], "without a version"
    found = remedy("install_package", captures={"module": "cv2"})
    assert found is not None and (found.package, found.kind) == ("opencv-python-headless", "install")
    no = {"why_not_install": lambda: "no"}
    assert remedy("install_package", captures={"module": "cv2"}, machine=no) is None


@pytest.mark.parametrize("module", ["tqdm.contrib.nosuch", "'redis.evil'", "PIL.Image"])
def test_not_for_a_part_of_a_package_that_was_found(module: str) -> None:
    assert remedy("install_package", captures={"module": module, "package": "tqdm"}) is None


AT = "ajet.rollout"
MISSPELT = "train: {num_wokers: 3, lr: 0.1}\n"
OF_THE_TRAINER = "ajet:\n  rollout:\n    max_num_sqs: 8\n  trainer_common: {save_frq: 5, sed: 1}\n"


@pytest.mark.parametrize(
    ("config", "captures", "right", "wrong"),
    [
        (OF_THE_TRAINER, {"key": "max_num_sqs"}, {f"{AT}.max_num_seqs": 8}, f"{AT}.max_num_sqs"),
        *(
            (MISSPELT, captures, {"train.num_workers": 3}, "train.num_wokers")
            for captures in (
                {"key": "num_wokers", "meant": "num_workers"},
                {"key": "num_wokers", "meant": "'num_workers'"},
                {"wanted": "'num_workers'"},
                {"key": "train.num_workers"},
            )
        ),
    ],
)
def test_a_misspelt_key_gets_its_value_under_the_name_that_was_meant(
    config: str, captures: dict[str, str], right: dict[str, int], wrong: str
) -> None:
    found = remedy("correct_key", config, captures=captures)
    assert found is not None and (found.edits, found.remove) == (right, (wrong,))


@pytest.mark.parametrize(
    ("config", "captures"),
    [
        (OF_THE_TRAINER, {"key": "sed"}),  # what is studied is left to a person
        ("a: {num_wokers: 3}\nb: {num_wokers: 3}\n", {"key": "num_wokers", "meant": "num_workers"}),
        ("a: {num_wokers: 3, num_workers: 1}\n", {"key": "num_wokers", "meant": "num_workers"}),
        ("a: {num_wokers: 3}\n", {"key": "num_wokers", "meant": "steps"}),
        ("a: {num_wokers: 3}\n", {"key": "num_wokers"}),
        ("a: {num_wokers: 3}\n", {"key": "num_wokers", "meant": "nobody knows what"}),
        ("a: {num_wokers: 3}\n", {"key": "other", "meant": "num_workers"}),
        ("a: {num_wokers: 3, num_worker: 2}\n", {"wanted": "num_workers"}),
        ("a: {num_wokers: 3}\nb: {num_workers: 2}\n", {"wanted": "num_workers"}),
        ("a: {learning_rat: 3}\n", {"key": "learning_rat", "meant": "learning_rate"}),
        ("a: {}\n", {}),
    ],
)
def test_not_where_it_is_not_clear(config: str, captures: dict[str, str]) -> None:
    assert remedy("correct_key", config, captures=captures) is None


def test_sizes_as_programs_print_them() -> None:
    sizes = {"1.02 GiB": 1.02, "512 MiB": 0.5, "79.15GiB": 79.15, "2 TiB": 2048.0, "1073741824": 1.0,
             "1073741824 bytes": 1.0, "1 GB": 1e9 / 2**30}  # fmt: skip
    assert {text: gib(text) for text in sizes} == pytest.approx(sizes)
    for text in ("", "?", "GiB", "1.2.3 GiB", "about 3 GiB", "-1 GiB", "inf GiB", "NaN", "9" * 16):
        assert gib(text) is None, text
    assert [whole(text) for text in ("4096", "32,768")] == [4096, 32768]
    assert {whole(text) for text in ("", "1.5", "-1", "9" * 5000, "²")} == {None}
