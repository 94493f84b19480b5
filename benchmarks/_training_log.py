"""A training's log as vLLM, Ray and verl print it, at a chosen rate; standard library only.

`python _training_log.py BYTES_PER_S END` prints one until there is a file END. Per 25 kB there is one row of
60 metrics; around it are engine statistics with Ray's coloured prefix, access logs, memory reports and
progress bars that redraw themselves; now and then a validation, and every 4 MB a traceback that the training
gets over.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path

BYTES_PER_ROW = 25_000
ROWS_PER_VALIDATION = 500
BYTES_PER_TRACEBACK = 4_000_000
PIECES_PER_S = 10
POOL = 4000

GROUPS = ("actor", "critic", "perf", "response_length", "timing_s")
MEASURES = ("advantages", "entropy", "grad_norm", "pg_loss", "returns", "rewards")
TRACEBACK = """\
\x1b[36m(RolloutWorker pid={pid})\x1b[0m Traceback (most recent call last):
\x1b[36m(RolloutWorker pid={pid})\x1b[0m   File "/opt/agent/episode.py", line {line}, in run
\x1b[36m(RolloutWorker pid={pid})\x1b[0m     answer = await client.chat(messages)
\x1b[36m(RolloutWorker pid={pid})\x1b[0m aiohttp.ClientConnectionError: Connection closed
episode {pid} is tried again
"""


def pieces(rate: int, seed: int = 0) -> Iterator[tuple[bytes, int]]:
    """Yield (bytes, rows in them) for ever, about `rate` / PIECES_PER_S bytes each, every line complete."""
    chance = random.Random(seed)
    pool = [_noise(chance).encode() for _ in range(POOL)]
    mean = sum(map(len, pool)) / len(pool)
    written = next_row = 0
    next_traceback, step, owed = BYTES_PER_TRACEBACK, 0, 0.0
    while True:
        owed += rate / PIECES_PER_S
        lines = chance.choices(pool, k=max(1, round(owed / mean)))
        rows = 0
        while written >= next_row:
            next_row += BYTES_PER_ROW
            step, rows = step + 1, rows + 1
            lines.append(_row(chance, step).encode())
            if step % ROWS_PER_VALIDATION == 0:
                rows += 1
                lines.append(f"eval {step} val/task_pass_rate@1 {chance.random():.4f}\r\n".encode())
        if written >= next_traceback:
            next_traceback += BYTES_PER_TRACEBACK
            text = TRACEBACK.format(pid=chance.randrange(99999), line=chance.randrange(999))
            lines.append(text.replace("\n", "\r\n").encode())
        piece = b"".join(lines)
        written += len(piece)
        owed -= len(piece)
        yield piece, rows


def _noise(chance: random.Random) -> str:
    kind = chance.random()
    worker, clock = chance.randrange(9999), f"16:{chance.randrange(60):02d}:{chance.randrange(60):02d}"
    if kind < 0.3:
        return (
            f"\x1b[36m(WorkerDict pid={worker})\x1b[0m INFO 11-21 {clock} [loggers.py:118] Engine 000: "
            f"Avg prompt throughput: {chance.random() * 900:.1f} tokens/s, Avg generation throughput: "
            f"{chance.random() * 5000:.1f} tokens/s, Running: {chance.randrange(256)} reqs, "
            f"GPU KV cache usage: {chance.random() * 90:.1f}%\r\n"
        )
    if kind < 0.5:
        return (
            f"\x1b[36m(TaskRunner pid=4021)\x1b[0m episode {worker}: {chance.randrange(999)} tokens in "
            f"{chance.random() * 9:.2f} s, reward={chance.random():.3f}\r\n"
        )
    if kind < 0.8:
        return (
            f"2026-11-21 {clock},{chance.randrange(1000):03d} - verl.workers.fsdp_workers - INFO - "
            f"After offload: memory allocated (GB): {chance.random() * 70:.2f}, reserved (GB): 71.25\r\n"
        )
    if kind < 0.98:
        port = chance.randrange(65536)
        return f'INFO:     127.0.0.1:{port} - "POST /v1/chat/completions HTTP/1.1" 200 OK\r\n'
    bar = "".join(
        f"\rrollout: {done}%|{'█' * (done // 10):10}| {done * 3}/300 [00:0{done // 20}<00:07, 41.7it/s]"
        for done in range(0, 101, 10)
    )
    return f"{bar}\r\n"


def _row(chance: random.Random, step: int) -> str:
    names = [
        f"{group}/{measure}/{part}" for group in GROUPS for measure in MEASURES for part in ("mean", "max")
    ]
    values = " - ".join(f"{name}:{chance.gauss(0, 1)!r}" for name in names)
    return f"\x1b[36m(TaskRunner pid=4021)\x1b[0m step:{step} - {values}\r\n"


def main() -> None:
    """Print the log at its rate."""
    rate, end = int(sys.argv[1]), Path(sys.argv[2])
    begun = time.monotonic()
    for count, (piece, _) in enumerate(pieces(rate), start=1):
        sys.stdout.buffer.write(piece.replace(b"\r\n", b"\n"))  # the terminal puts the carriage return back
        sys.stdout.buffer.flush()
        if end.exists():
            return
        time.sleep(max(0.0, begun + count / PIECES_PER_S - time.monotonic()))


if __name__ == "__main__":
    main()
