"""Peak memory of a batch of long prompts against one micro-batch that fills the same budget."""

import os
import subprocess
import sys

import pytest

BUDGET = 16_384
PROBE = f"""
import sys, torch
from transformers import AutoConfig, AutoModelForCausalLM
from tests.trainer_core.engine.flat import flat_batch
from trainer_core.engine.local_training import LocalTraining
from trainer_core.types import Loss

share, rows, prompt, answer, shorter = sys.argv[1] == "True", *map(int, sys.argv[2:])
torch.set_num_threads(1)
config = AutoConfig.for_model(
    "qwen2", vocab_size=264, hidden_size=64, intermediate_size=192, num_hidden_layers=2,
    num_attention_heads=4, num_key_value_heads=4, max_position_embeddings=4096,
)
model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
start = torch.randint(0, 264, (prompt,)).tolist()
answers = torch.randint(0, 264, (rows, answer)).tolist()
sequences = []
for number, each in enumerate(answers):
    length = prompt - shorter * (number // 8)
    sequences.append((start[:length] + each, [False] * length + [True] * answer))
batch = flat_batch(sequences)
engine = LocalTraining(model, None, share_prompts=share, max_tokens={BUDGET})
engine.forward_backward(batch.select(torch.arange(rows) < 1), Loss())
def peak():
    return int(open("/proc/self/status").read().split("VmHWM:")[1].split()[0])

before = peak()
engine.forward_backward(batch, Loss())
print(peak() - before)
"""


def peak(share: bool, rows: int, prompt: int, answer: int, shorter: int = 0) -> int:
    """KiB that the update adds to the process, with what is freed given back at once. Each eight rows have a
    prompt that is by `shorter` tokens shorter than that of the eight before."""
    environment = os.environ | {"MALLOC_MMAP_THRESHOLD_": "65536", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", PROBE, *map(str, (share, rows, prompt, answer, shorter))]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    return int(done.stdout)


@pytest.mark.soak
@pytest.mark.skipif(sys.platform != "linux", reason="counts in KiB, and steers glibc's allocator")
@pytest.mark.parametrize(
    ("share", "shape"),
    [
        (True, (64, 2000, 8)),
        (False, (64, 2000, 8)),
        (True, (64, 2000, 8, 40)),  # padded prompts have a mask
        (True, (16, 1000, 1000)),  # and long answers to them one that is larger than all else
    ],
)
def test_what_is_many_budgets_long_stays_within_one(share: bool, shape: tuple[int, ...]) -> None:
    """64 × 2,000 tokens are eight budgets; in one pass they would take eight times as much."""
    filled = peak(False, BUDGET // 2048, 2000, 48)
    assert filled / 3 < peak(share, *shape) < 1.3 * filled
