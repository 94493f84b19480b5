"""The gateway: requests a second, added latency and memory, in front of an engine that answers at once.

Every call reads about 4,000 prompt ids and draws 256, and is answered with ids and log-probabilities (about
55 KB). `conversation`: turns of growing chats, as agents have them; four episodes of a group begin alike.
`unrelated`: every prompt is rendered from its beginning. `tokens`: vLLM's token route. The server runs on one
core, the load on the other, each in a closed loop on its own connection. `direct` is a server that answers
with 55 KB that it has ready: what HTTP costs without a gateway. LiteLLM's proxy stands before that server.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import multiprocessing
import os
import random
import socket
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from pathlib import Path
from typing import Any

import orjson
import psutil
from _claim import Row, parser, publish

DRAWN, PROMPT, MOST = 256, 4000, 32_768
TURNS, GROUP = 6, 4
LEVELS = (1, 8, 32, 128)
SECONDS = 5.0
PEER_KEY = "sk-" + "0123456789abcdef" * 4
TEXT = "\n".join(path.read_text() for path in sorted(Path(__file__).parent.parent.glob("docs/*.md")))


# --- the server's process -------------------------------------------------------------------------------


def make_tokenizer() -> Any:
    """Byte-level BPE with 8,000 tokens, learned from the documentation, and ChatML."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    learned = Tokenizer(models.BPE())
    learned.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    learned.decoder = decoders.ByteLevel()
    learned.train_from_iterator(TEXT.splitlines(), trainers.BpeTrainer(vocab_size=8000, show_progress=False))
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=learned, eos_token="<|im_end|>", additional_special_tokens=["<|im_start|>"]
    )
    tokenizer.chat_template = (
        "{%- for m in messages -%}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor -%}"
        "{%- if add_generation_prompt -%}<|im_start|>assistant\n{% endif -%}"
    )
    return tokenizer


class Engine:
    """Answers at once with 256 ids of the documentation."""

    def __init__(self, tokenizer: Any) -> None:
        from trainer_core.engine.protocols import Generation
        from trainer_core.types import FinishReason

        ids = tokenizer.encode(TEXT, add_special_tokens=False)
        starts = random.Random(0).sample(range(len(ids) - DRAWN), 64)
        self._answers = itertools.cycle(
            Generation(
                (*ids[start : start + DRAWN - 1], tokenizer.eos_token_id),
                tuple(-0.5 - number / 1000 for number in range(DRAWN)),
                FinishReason.STOP,
                0,
            )
            for start in starts
        )

    async def generate(self, request: Any) -> list[Any]:
        return [next(self._answers)]


def serve(address: Any, core: int) -> None:
    """Run the gateway; say where, hand out keys, say how large the process is."""
    os.sched_setaffinity(0, {core})
    from trainer_core.gateway import EpisodeRules, Gateway
    from trainer_core.types import Sampling

    tokenizer = make_tokenizer()
    rules = EpisodeRules(Sampling(1.0), DRAWN, seed=0)
    episodes: list[Any] = []
    with Gateway(Engine(tokenizer), tokenizer, model="m", max_model_len=MOST) as gateway:  # type: ignore[arg-type]
        address.send((gateway.base_url, tokenizer.encode(TEXT)[:PROMPT]))
        while (wanted := address.recv()) is not None:
            if wanted == "size":
                address.send((psutil.Process().memory_info().rss, sum(psutil.Process().cpu_times()[:2])))
            elif wanted == "close":
                for episode in episodes:
                    episode.close()
                episodes.clear()
                address.send(None)
            else:
                new = [gateway.open_episode(rules) for _ in range(wanted)]
                episodes += new
                address.send([episode.key() for episode in new])


async def _ready_made(scope: Any, receive: Any, send: Any) -> None:
    while (await receive()).get("more_body"):
        pass
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(READY)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": READY})


def _completion() -> bytes:
    entry = {"token": " token", "logprob": -0.5, "bytes": [32], "top_logprobs": []}
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": "word " * DRAWN},
        "finish_reason": "stop",
        "logprobs": {"content": [entry] * DRAWN},
        "token_ids": list(range(5000, 5000 + DRAWN)),
    }
    usage = {"prompt_tokens": PROMPT, "completion_tokens": DRAWN, "total_tokens": PROMPT + DRAWN}
    head = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "m", "usage": usage}
    return orjson.dumps(head | {"choices": [choice], "prompt_token_ids": list(range(3000, 3000 + PROMPT))})


READY = _completion()


def serve_ready(address: Any, core: int) -> None:
    """Run the server whose answer is ready."""
    import uvicorn

    os.sched_setaffinity(0, {core})
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    listening.listen(2048)
    address.send(f"http://127.0.0.1:{listening.getsockname()[1]}")
    config = uvicorn.Config(
        _ready_made,
        interface="asgi3",
        lifespan="off",
        access_log=False,
        log_level="warning",
        proxy_headers=False,
    )
    uvicorn.Server(config).run([listening])


# --- the load -------------------------------------------------------------------------------------------


class Connection:
    """HTTP/1.1 as thin as it can be."""

    def __init__(self, base_url: str) -> None:
        self._host, _, port = base_url.removeprefix("http://").partition(":")
        self._port = int(port)

    async def open(self) -> None:
        self._reader, self._writer = await asyncio.open_connection(self._host, self._port, limit=2**20)

    async def post(self, path: str, key: str, body: bytes) -> bytes:
        head = f"POST {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {key}\r\n"
        head += "content-type: application/json\r\n"
        self._writer.write(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
        headers = (await self._reader.readuntil(b"\r\n\r\n")).lower()
        length = int(headers.partition(b"content-length: ")[2].partition(b"\r\n")[0])
        answer = await self._reader.readexactly(length)
        if b" 200 " not in headers[:20]:
            raise RuntimeError(answer[:300])
        return answer


ASKED = {"model": "m", "logprobs": True, "return_token_ids": True, "max_tokens": DRAWN}


def conversation(number: int, key: Callable[[], str]) -> Generator[tuple[str, str, bytes], bytes, None]:
    """Requests of one client; it is sent the answer to each."""
    while True:
        own, number = key(), number + 1
        begin = random.Random(number // GROUP).randrange(len(TEXT) // 2)
        messages = [{"role": "user", "content": TEXT[begin : begin + 11_000]}]
        for _ in range(TURNS):
            answer = yield "/v1/chat/completions", own, orjson.dumps({**ASKED, "messages": messages})
            messages.append(orjson.loads(answer)["choices"][0]["message"])
            for name in ("prompt_token_ids", "generation_token_ids", "generation_log_probs"):
                messages[-1].pop(name)
            messages.append({"role": "user", "content": TEXT[begin : begin + 300]})


def unrelated(number: int, key: Callable[[], str]) -> Iterator[tuple[str, str, bytes]]:
    """One call an episode, each with a prompt of its own."""
    for count in itertools.count(number * 1_000_003):
        begin = random.Random(count).randrange(len(TEXT) - 12_000)
        messages = [{"role": "user", "content": TEXT[begin : begin + 11_500]}]
        yield "/v1/chat/completions", key(), orjson.dumps({**ASKED, "messages": messages})


class Load:
    """Clients in a closed loop."""

    def __init__(self, base_url: str, requests: Callable[..., Any], key: Callable[[], str]) -> None:
        self._base_url = base_url
        self._requests = requests
        self._key = key
        self.sizes: list[int] = []

    async def run(self, clients: int, seconds: float) -> list[float]:
        """Latencies in seconds, of all that were answered."""
        latencies: list[float] = []

        async def client(number: int) -> None:
            connection = Connection(self._base_url)
            await connection.open()
            requests = self._requests(number * 1000, self._key)
            path, key, body = next(requests)
            while time.perf_counter() < end:
                begun = time.perf_counter()
                answer = await connection.post(path, key, body)
                latencies.append(time.perf_counter() - begun)
                self.sizes.append(len(answer))
                path, key, body = requests.send(answer)

        end = time.perf_counter() + seconds
        await asyncio.gather(*map(client, range(clients)))
        return latencies


def measure(load: Load, seconds: float, levels: Sequence[int]) -> dict[int, tuple[float, float, float]]:
    """Requests a second, p50 and p99 in ms, by clients."""
    asyncio.run(load.run(8, min(1.0, seconds)))  # warm
    found = {}
    for clients in levels:
        latencies = sorted(asyncio.run(load.run(clients, seconds)))
        p50, p99 = statistics.median(latencies), latencies[int(len(latencies) * 0.99)]
        found[clients] = (len(latencies) / seconds, p50 * 1e3, p99 * 1e3)
    return found


# --- the proxies ----------------------------------------------------------------------------------------


@contextlib.contextmanager
def started(target: Callable[[Any, int], None], core: int) -> Iterator[Any]:
    """A process of its own with a pipe to it."""
    here, there = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=target, args=(there, core), daemon=True)
    process.start()
    try:
        yield here
    finally:
        process.terminate()
        process.join(10)


@contextlib.contextmanager
def litellm(python: Path, upstream: str, core: int) -> Iterator[str]:
    """LiteLLM's proxy before the server at `upstream`, on one core."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder, "config.yaml")
        params = f"{{model: openai/m, api_base: {upstream}/v1, api_key: x}}"
        config.write_text(f"model_list:\n- {{model_name: m, litellm_params: {params}}}\n")
        program = str(python.parent / "litellm")
        command = ["taskset", "-c", str(core), program, "--config", str(config), "--port", str(port)]
        with Path(folder, "log").open("w") as log:
            environment = {**os.environ, "LITELLM_MASTER_KEY": PEER_KEY}
            proxy = subprocess.Popen(
                [*command, "--host", "127.0.0.1"], stdout=log, stderr=log, env=environment
            )
        try:
            until = time.monotonic() + 120
            while True:
                with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                    break
                if proxy.poll() is not None or time.monotonic() > until:
                    raise SystemExit("LiteLLM did not start:\n" + Path(folder, "log").read_text()[-2000:])
                time.sleep(0.2)
            yield f"http://127.0.0.1:{port}"
        finally:
            proxy.terminate()
            proxy.wait(10)


def measure_gateway(seconds: float) -> tuple[dict[str, Any], dict[str, Any]]:
    """Speed by workload and clients; the size of answers and of the process."""
    speeds: dict[str, Any] = {}
    facts: dict[str, Any] = {}
    with started(serve, 0) as server:
        base_url, ids = server.recv()

        def ask(what: Any) -> Any:
            server.send(what)
            return server.recv()

        keys: list[str] = []

        def key() -> str:
            if not keys:
                keys.extend(ask(256))
            return keys.pop()

        def tokens(number: int, key: Callable[[], str]) -> Iterator[tuple[str, str, bytes]]:
            asked = {
                "token_ids": ids,
                "sampling_params": {"max_tokens": DRAWN, "logprobs": 0},
                "return_token_ids": True,
            }
            body, own = orjson.dumps(asked), key()
            while True:
                yield "/inference/v1/generate", own, body

        for name, requests in {
            "conversation": conversation,
            "unrelated": unrelated,
            "tokens": tokens,
        }.items():
            load = Load(base_url, requests, key)
            asyncio.run(load.run(8, 1.0))
            ask("close")
            keys.clear()
            (before, cpu), load.sizes = ask("size"), []
            speeds[name] = measure(load, seconds, LEVELS)
            after, cpu_after = ask("size")
            calls = len(load.sizes)
            facts[name] = {
                "calls": calls,
                "answer_bytes": statistics.mean(load.sizes),
                "kept_bytes_per_call": (after - before) / calls,
                "cpu_ms_per_call": (cpu_after - cpu) / calls * 1e3,
            }
            ask("close")
            keys.clear()
        server.send(None)
    return speeds, facts


def main() -> None:
    """Measure and print."""
    made = parser(__doc__, "one second each")
    made.add_argument("--litellm", type=Path, help="the Python of an environment with litellm[proxy]")
    options = made.parse_args()
    seconds = 1.0 if options.quick else SECONDS
    os.sched_setaffinity(0, {1})
    peer: dict[int, tuple[float, float, float]] = {}
    if options.litellm:
        with started(serve_ready, 1) as server, litellm(options.litellm, server.recv(), 0) as base_url:
            peer = measure(Load(base_url, unrelated, lambda: PEER_KEY), seconds, LEVELS[:3])
    with started(serve_ready, 0) as server:
        direct = measure(Load(server.recv(), unrelated, lambda: "x"), seconds, LEVELS)
    speeds, facts = measure_gateway(seconds)
    rows = [_row("direct", n, direct[n], None, None, {}) for n in LEVELS]
    rows += [
        _row(name, n, speeds[name][n], direct[n], peer.get(n), facts[name]) for name in speeds for n in LEVELS
    ]
    publish("The gateway, one core (peer: LiteLLM's proxy)", rows, options, [direct, speeds, facts, peer])


def _row(
    name: str,
    clients: int,
    found: tuple[float, float, float],
    direct: tuple[float, float, float] | None,
    peer: tuple[float, float, float] | None,
    facts: dict[str, Any],
) -> Row:
    rate, p50, p99 = found
    ours = f"{rate:,.0f} requests/s, p50 {p50:.2f} ms, p99 {p99:.2f} ms"
    if direct:
        ours += f" (+{p50 - direct[1]:.2f}, +{p99 - direct[2]:.2f})"
    if clients == LEVELS[-1] and facts:
        kept = facts["kept_bytes_per_call"] / 1000
        ours += f"; {kept:.1f} KB kept and {facts['cpu_ms_per_call']:.2f} ms of CPU a call"
    goal = "" if not direct else "≥ 1,000/s, ≤ 25 KB" if clients > 1 else "p50 ≤ +1 ms, p99 ≤ +5 ms"
    told = "" if peer is None else f"{peer[0]:,.0f} requests/s, p50 {peer[1]:.1f} ms, p99 {peer[2]:.1f} ms"
    return Row(f"{name}, {clients} at once", ours, goal, told)


if __name__ == "__main__":
    main()
