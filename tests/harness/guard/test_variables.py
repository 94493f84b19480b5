"""Only listed variables are set, each to what it takes."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.guard import variables
from harness.guard.variables import refuse as refuse_variable
from monitors.launch import is_secret_name

BY_HAND = """
    PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True,max_split_size_mb:128
    NCCL_SOCKET_IFNAME=^lo,docker0
    PYTORCH_CUDA_ALLOC_CONF=roundup_power2_divisions:[256:1,512:2],garbage_collection_threshold:0.8
    NCCL_IB_HCA=mlx5_0:1,mlx5_1:1 NCCL_DEBUG=INFO OMP_NUM_THREADS=4 TOKENIZERS_PARALLELISM=false
    HF_HUB_OFFLINE=1 VLLM_ATTENTION_BACKEND=FLASH_ATTN RAY_memory_usage_threshold=0.99
    CUBLAS_WORKSPACE_CONFIG=:4096:8 WANDB_MODE=offline MASTER_PORT=29501 PYTHONIOENCODING=utf-8:replace
    XLA_PYTHON_CLIENT_MEM_FRACTION=.7 MPLBACKEND=Agg MUJOCO_GL=egl SWANLAB_MODE=local"""
NEVER = """
    LD_PRELOAD LD_LIBRARY_PATH LD_AUDIT PATH HOME PYTHONPATH PYTHONSTARTUP PYTHONHOME PYTHONWARNINGS
    PYTHONBREAKPOINT PYTHONHASHSEED BASH_ENV ENV IFS PROMPT_COMMAND GIT_SSH_COMMAND GIT_CONFIG_GLOBAL
    HTTP_PROXY https_proxy ALL_PROXY HF_ENDPOINT HF_HOME HF_TOKEN PIP_INDEX_URL OPENAI_BASE_URL
    OPENAI_API_KEY WANDB_API_KEY ANTHROPIC_API_KEY WANDB_BASE_URL CUDA_VISIBLE_DEVICES MASTER_ADDR
    NCCL_NET_PLUGIN NCCL_TUNER_PLUGIN NCCL_CONF_FILE NCCL_TOPO_FILE VLLM_PLUGINS VLLM_USE_MODELSCOPE
    NVIDIA_TF32_OVERRIDE TRITON_CACHE_DIR TORCH_EXTENSIONS_DIR CUDA_HOME SSL_CERT_FILE
    HARNESS_ATTEMPT_DIR omp_num_threads NCCL_FUTURE_OPTION"""


def test_variables_that_tune_how_it_runs() -> None:
    for name, value in (pair.split("=", 1) for pair in BY_HAND.split()):
        assert refuse_variable(name, value, ()) is None, (name, value)
        assert "protected" in str(refuse_variable(name, value, (name,)))


@pytest.mark.parametrize("name", [*NEVER.split(), "OMP_NUM_THREADS ", ""])
def test_loaders_places_addresses_secrets_and_seeds_are_not_set(name: str) -> None:
    assert "not one that a repair may set" in str(refuse_variable(name, "1", ()))


def test_a_misspelt_name_is_told_the_right_one() -> None:
    assert "did you mean OMP_NUM_THREADS" in str(refuse_variable("OMP_NUM_THREAD", "4", ()))


@pytest.mark.parametrize(
    "value", ["0", "999999999999", "4\nA=x", "4;id", "$(id)", "`id`", "4 ", "/tmp/x", "", "4\0", "٤", "-1"]
)
def test_a_number_is_a_number(value: str) -> None:
    assert "takes a whole number" in str(refuse_variable("OMP_NUM_THREADS", value, ()))


EVIL = "/tmp/x ../x http://evil.example ${HOME} sk-0123456789abcdef0123 a.b->C a\nb"
LOUD = """WANDB_MODE=online WANDB_DISABLED=false SWANLAB_MODE=cloud RAY_USAGE_STATS_ENABLED=1 NCCL_NET=evil
    MPLBACKEND=module MUJOCO_GL=evil"""


@pytest.mark.parametrize("pair", LOUD.split())
def test_trackers_are_only_made_quiet_and_what_could_load_code_takes_known_words(pair: str) -> None:
    assert "takes" in str(refuse_variable(*pair.split("="), ()))


@given(st.sampled_from([*variables.allowed()]), st.text(max_size=40))
def test_no_listed_variable_is_a_secret_or_takes_more_than_its_kind(name: str, value: str) -> None:
    assert not is_secret_name(name)
    for bad in EVIL.split(" "):
        assert refuse_variable(name, bad, ()) is not None, (name, bad)
    if refuse_variable(name, value, ()) is None:
        assert re.fullmatch(r"[\w.:,\[\]=^-]+", value, re.ASCII)
