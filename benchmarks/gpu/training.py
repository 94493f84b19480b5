"""What a step of GRPO takes on one GPU: seconds, tokens per second, model FLOP/s of the update, memory.

Models have the shapes of Qwen2.5 and random weights, so that nothing is downloaded; prompts are random digits
of `--prompt` tokens, answers run to `--answer` tokens nearly always. `--tasks` x `--repeats` answers a
step, one mini-batch, KL loss with a reference copy. What trains and samples is chosen as users do it:

    python benchmarks/gpu/training.py local:transformers local:vllm verl:vllm --size 0.5B 1.5B

Printed are medians over the steps after the first two, without the checkpoint at the end. FLOP/s of the
update: 6 x parameters x tokens (2 x for the reference) over the seconds of both, beside `--peak` (dense
bfloat16 of the data sheet, here an H100's and an H200's). Memory is what the device has in use at most, all
processes together, as its driver says.
`--device cpu --size tiny` tries the script itself.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import yaml
from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parents[2]
JUDGE = Path(__file__).with_name("digits.py").resolve()
SIZES = {
    "tiny": (64, 192, 2, 2, 512),
    "0.5B": (896, 4864, 24, 14, 151936),
    "1.5B": (1536, 8960, 28, 12, 151936),
}
"""Hidden and feed-forward size, layers, heads (of which 2 for keys and values), vocabulary."""
WARM_STEPS = 2
GIGABYTE = 2**30


@dataclass
class Memory:
    """Bytes in use on the device."""

    before: int = 0
    peak: int = 0


def make_model(size: str, folder: Path, longest: int) -> int:
    """Write a model of that size into the folder; its parameters."""
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM

    from trainer_core.engine.tiny_model import make_tokenizer

    tokenizer = make_tokenizer()
    hidden, wide, layers, heads, vocabulary = SIZES[size]
    config = Qwen2Config(
        hidden_size=hidden,
        intermediate_size=wide,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=2,
        vocab_size=vocabulary,
        max_position_embeddings=longest,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    torch.manual_seed(0)
    with torch.device("cuda" if torch.cuda.is_available() else "cpu"):
        model = Qwen2ForCausalLM(config).to(torch.bfloat16)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    parameters = int(model.num_parameters())
    del model
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    return parameters


def write_config(folder: Path, chosen: argparse.Namespace, backbone: str, inference: str) -> Path:
    """The config of a run of the model in the folder."""
    chance = random.Random(0)
    questions = ("".join(chance.choices("0123456789", k=chosen.prompt - 3)) for _ in range(64))
    rows = "".join(json.dumps({"question": each, "answer": "0"}) + "\n" for each in questions)
    (folder / "tasks.jsonl").write_text(rows)
    ajet = {
        "project_name": "gpu",
        "experiment_name": f"{backbone}-{inference}",
        "backbone": backbone,
        "model": {"path": str(folder)},
        "task_reader": {
            "type": "jsonl_dataset_file",
            "jsonl_dataset_file": {"training": {"file_path": str(folder / "tasks.jsonl")}},
        },
        "task_judge": {"judge_type": "customized_protocol", "judge_protocol": f"{JUDGE}->Digits"},
        "data": {
            "max_prompt_length": chosen.prompt,
            "max_response_length": chosen.answer,
            "train_batch_size": chosen.tasks,
        },
        "rollout": {
            "num_repeat": chosen.repeats,
            "temperature": 1.0,
            "inference": inference,
            "max_response_length_in_one_turn": chosen.answer,
            "max_env_worker": chosen.tasks * chosen.repeats,
            "max_num_seqs": 256,
            "kv_cache_memory_bytes": 16 * GIGABYTE if chosen.device == "cuda" else GIGABYTE,
            "gpu_memory_utilization": chosen.share,
            "vllm_python": chosen.vllm_python,
        },
        "trainer_common": {
            "device": chosen.device,
            "n_gpus_per_node": 1,
            "model_dtype": chosen.dtype,
            "total_training_steps": WARM_STEPS + chosen.steps,
            "val_before_train": False,
            "test_freq": -1,
            "save_freq": -1,
            "logger": "console",
            "mini_batch_num": 1,
            "use_kl_loss": True,
            "enable_gradient_checkpointing": chosen.gradient_checkpointing,
            "optim": {"lr": 1e-6},
        },
    }  # fmt: skip
    path = folder / "config.yaml"
    path.write_text(yaml.safe_dump({"ajet": ajet}))
    return path


@contextlib.contextmanager
def watched_memory() -> Iterator[Memory]:
    """What is in use on the first GPU, ten times a second."""
    seen, over = Memory(), threading.Event()
    try:
        import pynvml

        pynvml.nvmlInit()
        device = pynvml.nvmlDeviceGetHandleByIndex(0)
    except Exception:  # noqa: BLE001  (no GPU, no driver, no library)
        yield seen
        return

    def used() -> int:
        return int(pynvml.nvmlDeviceGetMemoryInfo(device).used)

    def watch() -> None:
        while not over.wait(0.1):
            seen.peak = max(seen.peak, used())

    seen.before = seen.peak = used()
    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield seen
    finally:
        over.set()
        thread.join()


def measure(size: str, what: str, chosen: argparse.Namespace) -> list[str]:
    """A row of the table."""
    backbone, _, inference = what.partition(":")
    with tempfile.TemporaryDirectory(prefix="ajet-gpu-") as place:
        folder = Path(place)
        parameters = make_model(size, folder, chosen.prompt + chosen.answer)
        config = write_config(folder, chosen, backbone, inference)
        command = [
            sys.executable,
            "-m",
            "trainer_core.cli",
            "--conf",
            str(config),
            "--exp-dir",
            str(folder / "run"),
        ]
        with watched_memory() as memory, (folder / "printed.log").open("w") as printed:
            ended = subprocess.run(command, cwd=ROOT, stdout=printed, stderr=subprocess.STDOUT, check=False)
        if ended.returncode:
            for log in folder.glob("**/*.log"):
                print(f"--- {log.name}\n{log.read_text()[-4000:]}")
            return [size, what, f"failed ({ended.returncode})"]
        rows = next(folder.glob("**/metrics.jsonl")).read_text().splitlines()
        steps = [json.loads(line) for line in rows]
    for step in steps:
        print(" ".join(f"{name}={value:.3g}" for name, value in step.items() if name.startswith("timing_s/")))
    steps = steps[WARM_STEPS:]
    return [size, what, *told(steps, parameters, chosen, memory)]


def told(
    steps: list[dict[str, float]], parameters: int, chosen: argparse.Namespace, memory: Memory
) -> list[str]:
    """Medians over the steps."""

    def typical(name: str) -> float:
        return median(step.get(f"timing_s/{name}", 0.0) for step in steps)

    tokens = median(step["perf/total_num_tokens"] for step in steps)
    answers = median(step["response_length/mean"] for step in steps) * chosen.tasks * chosen.repeats
    flops = (6 + 2) * parameters * tokens / (typical("update_actor") + typical("ref"))
    whole = median(step["timing_s/step"] - step.get("timing_s/save_checkpoint", 0.0) for step in steps)
    return [
        f"{whole:.2f}",
        *(f"{typical(name):.2f}" for name in ("gen", "ref", "update_actor", "update_weights")),
        f"{answers / typical('gen'):,.0f}",
        f"{tokens / (typical('update_actor') + typical('ref')):,.0f}",
        f"{flops / 1e12:.1f} ({flops / chosen.peak / 1e10:.1f} %)",
        f"{memory.peak / GIGABYTE:.1f}",
        f"{max(step['training/rollout_probs_diff_max'] for step in steps):.1e}",
    ]


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    options.add_argument("what", nargs="+", help="BACKBONE:INFERENCE, such as local:vllm")
    options.add_argument("--size", nargs="+", default=["0.5B"], choices=list(SIZES))
    options.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    options.add_argument("--dtype", default="bf16", choices=["bf16", "fp32"])
    options.add_argument("--vllm-python", default=None)
    options.add_argument("--gradient-checkpointing", action="store_true")
    options.add_argument("--peak", type=float, default=989.0, help="TFLOP/s of the device")
    options.add_argument("--share", type=float, default=0.4, help="of the memory, for vLLM")
    for name, default in (("prompt", 512), ("answer", 512), ("tasks", 16), ("repeats", 8), ("steps", 3)):
        options.add_argument(f"--{name}", type=int, default=default)
    chosen = options.parse_args()
    columns = ("model", "what", "step s", "sample s", "reference s", "update s", "sync s", "sampled tokens/s",
               "trained tokens/s", "model TFLOP/s", "GiB at most", "probability difference")  # fmt: skip
    table = Table(*columns, title=f"GRPO on one device, {chosen.tasks} x {chosen.repeats} answers")
    for size in chosen.size:
        for what in chosen.what:
            row = measure(size, what, chosen)
            table.add_row(*row)
            print(" | ".join(row), flush=True)
    Console(width=190).print(table)


if __name__ == "__main__":
    main()
