"""What a healthy training prints, so that a log can be hidden in it: seeded, endless, bytes.

`noise(seed)` yields lines: metric rows with rising steps (one framework per seed), statistics of inference
engines, Ray's prefixes, access logs, progress bars that redraw themselves, warnings that mean nothing and
retries that succeed. `hide` puts a log in the middle of so many of them.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice

LINES_PER_ROW = 60
HIDDEN_IN = 50_000


@dataclass(frozen=True)
class Hidden:
    """A log inside noise. `above`: how many lines stand above its first one."""

    content: bytes
    above: int


def hide(log: bytes, seed: int, lines: int = HIDDEN_IN) -> Hidden:
    """Put `log` into the middle of so many lines of noise."""
    around = list(islice(noise(seed), lines))
    above = len(around) // 2
    return Hidden(b"".join([*around[:above], log.rstrip(b"\n") + b"\n", *around[above:]]), above)


def noise(seed: int) -> Iterator[bytes]:
    """Yield the lines of a healthy training, each with its line break, for ever."""
    chance = random.Random(seed)
    row = chance.choice((verl_row, trl_row, ray_row))
    kinds, weights = zip(*KINDS.items(), strict=True)
    steps = 0
    while True:
        for make in chance.choices(kinds, weights, k=LINES_PER_ROW - 1):
            yield make(chance).encode() + b"\n"
        steps += 1
        yield row(chance, steps).encode() + b"\n"


# --- metric rows ----------------------------------------------------------------------------------------


def verl_row(chance: random.Random, step: int) -> str:
    """A row of a run that learns slowly."""
    reward = min(0.9, 0.2 + step / 2000) + chance.gauss(0, 0.03)
    return (
        f"step:{step} - actor/entropy:{chance.uniform(0.4, 0.6):.4f}"
        f" - actor/kl_loss:{chance.uniform(1, 4) / 1e3:.5f} - actor/pg_loss:{chance.gauss(0, 0.02):.5f}"
        f" - actor/grad_norm:{chance.uniform(0.2, 0.6):.4f}"
        f" - actor/lr:1e-06 - critic/rewards/mean:{reward:.4f} - critic/rewards/max:1.0"
        f" - response_length/mean:{chance.uniform(300, 420):.1f} - response_length/clip_ratio:0.01"
        f" - timing_s/step:{chance.uniform(28, 33):.2f} - perf/throughput:{chance.uniform(900, 1100):.1f}"
    )


def ray_row(chance: random.Random, step: int) -> str:
    """The same, behind Ray's coloured prefix."""
    return f"\x1b[36m(TaskRunner pid=3107)\x1b[0m {verl_row(chance, step)}"


def trl_row(chance: random.Random, step: int) -> str:
    """A row as Hugging Face's trainer prints it."""
    loss = 0.4 + 1.5 / (1 + step / 50) + chance.gauss(0, 0.02)
    return (
        f"{{'loss': {loss:.4f}, 'grad_norm': {chance.uniform(0.3, 0.9):.6f}, 'learning_rate': 5e-06,"
        f" 'rewards/mean': {chance.uniform(0.3, 0.5):.4f}, 'num_tokens': {step * 2048},"
        f" 'epoch': {step / 900:.2f}}}"
    )


# --- everything around them -----------------------------------------------------------------------------


def clock(chance: random.Random) -> str:
    """Return a time of day with milliseconds."""
    return f"{chance.randrange(24):02d}:{chance.randrange(60):02d}:{chance.randrange(60):02d}"


def engine(chance: random.Random) -> str:
    """Statistics of an inference engine."""
    return (
        f"INFO 11-21 {clock(chance)} [loggers.py:127] Engine 000: Avg prompt throughput:"
        f" {chance.random() * 900:.1f} tokens/s, Avg generation throughput:"
        f" {chance.random() * 5000:.1f} tokens/s, Running: {chance.randrange(200)} reqs,"
        f" Waiting: {chance.randrange(9)} reqs, GPU KV cache usage:"
        f" {chance.random() * 90:.1f}%, Prefix cache hit rate: {chance.random() * 60:.1f}%"
    )


def worker(chance: random.Random) -> str:
    """What a Ray worker says of its memory."""
    name = chance.choice(("WorkerDict", "AsyncvLLMServer", "RewardManager", "AgentLoopWorker"))
    times = f" [repeated {chance.randrange(2, 16)}x across cluster]" if chance.random() < 0.3 else ""
    return (
        f"\x1b[36m({name} pid={chance.randrange(1000, 90_000)})\x1b[0m INFO:2026-11-21 {clock(chance)},"
        f"{chance.randrange(1000):03d}:After offload, memory allocated (GB): {chance.uniform(1, 60):.2f},"
        f" memory reserved (GB): {chance.uniform(60, 70):.2f}, used/total (GB): 71.20/79.11{times}"
    )


def access(chance: random.Random) -> str:
    """One request that a server answered."""
    path = chance.choice(("/v1/chat/completions", "/v1/completions", "/health", "/metrics"))
    return f'INFO:     127.0.0.1:{chance.randrange(1024, 65_536)} - "POST {path} HTTP/1.1" 200 OK'


def episode(chance: random.Random) -> str:
    """One finished episode."""
    return (
        f"2026-11-21 {clock(chance)},{chance.randrange(1000):03d} - rollout - INFO - episode"
        f" {chance.randrange(90_000)} done: turns={chance.randrange(1, 12)} tokens={chance.randrange(4000)}"
        f" reward={chance.random():.3f} errors=0"
    )


def bar(chance: random.Random) -> str:
    """A progress bar that redraws itself."""
    what = chance.choice(("rollout", "Processed prompts", "Loading checkpoint shards", "Map", "Evaluating"))
    total = chance.randrange(100, 900)
    return "".join(
        f"\r{what}: {done:3d}%|{'█' * (done // 10):10}| {total * done // 100}/{total} [00:0{done // 12}<"
        f"00:05, {chance.uniform(10, 90):.1f}it/s]"
        for done in range(0, 101, 20)
    )


def nccl(chance: random.Random) -> str:
    """NCCL at its debug level INFO."""
    rank = chance.randrange(8)
    return f"node-1:{4000 + rank}:{5000 + rank} [{rank}] NCCL INFO " + chance.choice(
        (
            f"Channel {chance.randrange(24):02d}/0 : {rank}[{rank}] -> {rank + 1}[{rank + 1}] via P2P/CUMEM",
            "Using network Socket",
            "NET/OFI No NIC info for dev 0",
            "Could not find: libnccl-net.so. Using internal network plugin.",
            "Connected all rings",
            "threadThresholds 8/8/64 | 64/8/64 | 512 | 512",
            "Channel ERROR count 0, retransmissions 0",
        )
    )


def warning(chance: random.Random) -> str:
    """A warning that means nothing."""
    return chance.choice(WARNINGS).format(
        time=clock(chance), pid=chance.randrange(1000, 90_000), small=chance.randrange(1, 5)
    )


def retry(chance: random.Random) -> str:
    """A request that failed once and succeeded, on two lines."""
    number, wait = chance.randrange(90_000), chance.choice((1, 2, 4))
    failed = chance.choice(
        ("ReadTimeout", "connection reset by peer", "503 Service Unavailable", "timed out")
    )
    return (
        f"WARNING 11-21 {clock(chance)} request {number} failed ({failed}), retrying in {wait}s [1/5]\n"
        f"INFO 11-21 {clock(chance)} request {number} succeeded after 1 retry"
    )


WARNINGS = (
    "FutureWarning: `torch.cuda.amp.autocast(args...)` is deprecated. Use `torch.amp.autocast` instead.",
    "WARNING {time} [config.py:{pid}] Async output processing is not supported on the current platform type.",
    "(WorkerDict pid={pid}) UserWarning: None of the inputs have requires_grad=True. Gradients will be None",
    "`use_cache=True` is incompatible with gradient checkpointing. Setting `use_cache=False`.",
    "Token indices sequence length is longer than the specified maximum sequence length for this model"
    " (4211 > 4096). Running this sequence through the model will result in indexing errors",
    "huggingface/tokenizers: The current process just got forked, after parallelism has already been used."
    " Disabling parallelism to avoid deadlocks...",
    "(raylet) Spilled {pid} MiB, {small} objects, write throughput 812 MiB/s.",
    "WARNING {time} [scheduler.py:{pid}] Sequence group {pid} is preempted by PreemptionMode.RECOMPUTE"
    " mode because there is not enough KV cache space. This can affect the end-to-end performance.",
    "[W1121 {time} ProcessGroupNCCL.cpp:4115] Warning: using GPU {small} to perform barrier as devices used"
    " by this process are currently unknown.",
    "wandb: WARNING Tried to log to step {small} that is less than the current step. Steps must be"
    " monotonically increasing, so this data will be ignored.",
    "DeprecationWarning: `pkg_resources` is deprecated as an API.",
    "judge answered without a score for {small} of 512 items; asked again, all scored",
    "INFO {time} health check: 0 errors, 0 failed requests, {small} workers alive",
)
KINDS: dict[Callable[[random.Random], str], float] = {
    engine: 0.2,
    worker: 0.2,
    access: 0.25,
    episode: 0.16,
    bar: 0.05,
    nccl: 0.05,
    warning: 0.08,
    retry: 0.01,
}
