"""Only listed variables are set, each to what it takes."""

import pytest

from harness.guard import variables
from harness.guard.science import refuse_variable
from monitors.launch import is_secret_name


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True,max_split_size_mb:128"),
        (
            "PYTORCH_CUDA_ALLOC_CONF",
            "roundup_power2_divisions:[256:1,512:2],garbage_collection_threshold:0.8",
        ),
        ("NCCL_P2P_DISABLE", "1"),
        ("NCCL_SOCKET_IFNAME", "^lo,docker0"),
        ("NCCL_IB_HCA", "mlx5_0:1,mlx5_1:1"),
        ("NCCL_DEBUG", "INFO"),
        ("TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC", "1800"),
        ("OMP_NUM_THREADS", "4"),
        ("TOKENIZERS_PARALLELISM", "false"),
        ("HF_HUB_OFFLINE", "1"),
        ("VLLM_ATTENTION_BACKEND", "FLASH_ATTN"),
        ("VLLM_WORKER_MULTIPROC_METHOD", "spawn"),
        ("RAY_memory_usage_threshold", "0.99"),
        ("CUBLAS_WORKSPACE_CONFIG", ":4096:8"),
        ("WANDB_MODE", "offline"),
        ("MASTER_PORT", "29501"),
        ("PYTHONIOENCODING", "utf-8:replace"),
        ("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True,"),
        ("HYDRA_FULL_ERROR", "1"),
        ("WANDB_START_METHOD", "thread"),
        ("WANDB_INIT_TIMEOUT", "300"),
        ("XLA_PYTHON_CLIENT_PREALLOCATE", "false"),
        ("XLA_PYTHON_CLIENT_MEM_FRACTION", ".7"),
        ("TF_FORCE_GPU_ALLOW_GROWTH", "true"),
        ("PYTORCH_ENABLE_MPS_FALLBACK", "1"),
        ("VLLM_FLASH_ATTN_VERSION", "2"),
        ("VLLM_PORT", "12345"),
        ("NCCL_NET", "Socket"),
        ("NCCL_CROSS_NIC", "0"),
        ("NCCL_IB_TC", "106"),
        ("NCCL_IB_SL", "0"),
        ("TORCHINDUCTOR_FORCE_DISABLE_CACHES", "1"),
        ("RAY_DISABLE_MEMORY_MONITOR", "1"),
        ("MPLBACKEND", "Agg"),
        ("MUJOCO_GL", "egl"),
        ("PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION", "python"),
        ("SWANLAB_MODE", "local"),
    ],
)
def test_variables_that_tune_how_it_runs(name: str, value: str) -> None:
    assert refuse_variable(name, value, ()) is None
    assert "protected" in str(refuse_variable(name, value, (name,)))


@pytest.mark.parametrize(
    "name",
    [
        *(
            "LD_PRELOAD",
            "LD_LIBRARY_PATH",
            "LD_AUDIT",
            "PATH",
            "HOME",
            "PYTHONPATH",
            "PYTHONSTARTUP",
            "PYTHONHOME",
        ),
        *("PYTHONWARNINGS", "PYTHONBREAKPOINT", "PYTHONHASHSEED", "PYTHONUSERBASE", "BASH_ENV", "ENV", "IFS"),
        *("PROMPT_COMMAND", "GIT_SSH_COMMAND", "GIT_CONFIG_GLOBAL", "HTTP_PROXY", "https_proxy", "ALL_PROXY"),
        *("HF_ENDPOINT", "HF_HOME", "HF_TOKEN", "PIP_INDEX_URL", "OPENAI_BASE_URL", "OPENAI_API_KEY"),
        *("ANTHROPIC_API_KEY", "WANDB_API_KEY", "WANDB_BASE_URL", "CUDA_VISIBLE_DEVICES", "MASTER_ADDR"),
        *("NCCL_NET_PLUGIN", "NCCL_TUNER_PLUGIN", "NCCL_CONF_FILE", "NCCL_TOPO_FILE", "NCCL_DEBUG_FILE"),
        *("VLLM_PLUGINS", "VLLM_USE_MODELSCOPE", "NVIDIA_TF32_OVERRIDE", "TRITON_CACHE_DIR", "RAY_ADDRESS"),
        *("TORCH_EXTENSIONS_DIR", "CUDA_HOME", "SSL_CERT_FILE", "HARNESS_ATTEMPT_DIR", "AJET_ATTEMPT_ID"),
        *("omp_num_threads", "OMP_NUM_THREADS ", "", "NCCL_FUTURE_OPTION"),
    ],
)
def test_loaders_places_addresses_secrets_and_seeds_are_not_set(name: str) -> None:
    assert "not one that a repair may set" in str(refuse_variable(name, "1", ()))


@pytest.mark.parametrize(
    "value", ["4\nLD_PRELOAD=x", "4;id", "$(id)", "`id`", "4 ", "/tmp/x", "", "4\0", "٤", "-1"]
)
def test_a_number_is_a_number(value: str) -> None:
    assert "takes a whole number" in str(refuse_variable("OMP_NUM_THREADS", value, ()))


def test_trackers_can_only_be_made_quiet() -> None:
    assert refuse_variable("WANDB_MODE", "online", ()) is not None
    assert refuse_variable("WANDB_DISABLED", "false", ()) is not None
    assert refuse_variable("SWANLAB_MODE", "cloud", ()) is not None
    assert refuse_variable("RAY_USAGE_STATS_ENABLED", "1", ()) is not None


def test_what_could_load_a_library_takes_only_known_words() -> None:
    for name, value in (("NCCL_NET", "evil"), ("MPLBACKEND", "module"), ("MUJOCO_GL", "evil")):
        assert "takes" in str(refuse_variable(name, value, ()))


def test_no_listed_variable_takes_a_path_an_address_several_lines_or_a_secret() -> None:
    for name in variables.allowed_names():
        assert not is_secret_name(name)
        for value in (
            "/tmp/x",
            "../x",
            "http://evil.example",
            "a\nb",
            "${HOME}",
            "sk-0123456789abcdef0123",
            "a.b->C",
        ):
            assert refuse_variable(name, value, ()) is not None, (name, value)


def test_a_misspelt_name_is_told_the_right_one() -> None:
    assert "did you mean OMP_NUM_THREADS" in str(refuse_variable("OMP_NUM_THREAD", "4", ()))
