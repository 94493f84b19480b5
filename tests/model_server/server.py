"""`ModelServer`: answers Anthropic's and OpenAI's protocols from a script, and remembers what it was sent.

In: a script, perhaps a clock. Out: two base URLs, `log` with one `Exchange` per request, and `violations`:
what the real servers would have refused. Leaving the `with` block raises when violations are left that nobody
took.

    with ModelServer([call("look"), say("done")]) as server:
        client = anthropic.AsyncAnthropic(base_url=server.anthropic_url, api_key="test", max_retries=0)
"""

import json
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from threading import Condition
from types import TracebackType
from typing import Any

from tests.model_server import anthropic_wire, openai_wire
from tests.model_server.bad_request import BadRequest
from tests.model_server.caching import AnthropicCache, OpenAICache, PromptTokens, tokens_in
from tests.model_server.seen import Seen
from tests.model_server.steps import Answer, CutOff, Failure, Hang, Script, Step, StreamError
from tests.model_server.transport import Delivery, Loopback
from tests.model_server.wire import Dialect, Draft, ErrorReply

ANTHROPIC: Dialect = anthropic_wire
OPENAI: Dialect = openai_wire


@dataclass(frozen=True)
class Exchange:
    """One request and what it was answered with. `prompt` is None, and nothing is charged, where it failed.

    `at` is the server's clock; a request that breaks the rules has neither `seen` nor `step`.
    """

    number: int
    at: float
    protocol: str
    status: int
    seen: Seen | None = None
    step: Step | None = None
    prompt: PromptTokens | None = None
    output_tokens: int = 0


class ModelServer:
    """A model behind both protocols, on a free port of 127.0.0.1; a context manager.

    `context_window` in tokens; `now` in seconds, for the prompt caches.
    """

    def __init__(
        self, script: Script, *, now: Callable[[], float] = time.time, context_window: int = 200_000
    ) -> None:
        self._script = script
        self._next_step = 0
        self._now = now
        self._window = context_window
        self._caches: dict[str, AnthropicCache | OpenAICache] = {
            "anthropic": AnthropicCache(now),
            "openai": OpenAICache(now),
        }
        self._changed = Condition()
        self._arrived = 0
        self._loopback = Loopback(self._respond)
        self.log: list[Exchange] = []
        self.violations: list[str] = []

    @property
    def anthropic_url(self) -> str:
        """The `base_url` that Anthropic's SDK wants."""
        return self._loopback.url

    @property
    def openai_url(self) -> str:
        """The `base_url` that OpenAI's SDK wants."""
        return f"{self._loopback.url}/v1"

    def release(self) -> None:
        """End every `hang`, also those to come."""
        self._loopback.release()

    def wait_for_request(self, number: int, timeout_s: float = 30.0) -> None:
        """Block until this many requests have arrived; from a coroutine call it in a thread."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._arrived >= number, timeout_s):
                raise TimeoutError(
                    f"request {number} has not come within {timeout_s:g} s, only {self._arrived}"
                )

    def take_violations(self) -> list[str]:
        """The violations so far, which then no longer count."""
        with self._changed:
            taken, self.violations = self.violations, []
        return taken

    def __enter__(self) -> "ModelServer":
        self._loopback.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loopback.close()
        if error is None and self.violations:
            raise AssertionError(
                "the model server was sent what no real one takes:\n" + "\n".join(self.violations)
            )

    def _respond(self, method: str, path: str, headers: dict[str, str], content: bytes) -> Delivery:
        routes = {"/v1/messages": ("anthropic", ANTHROPIC), "/v1/chat/completions": ("openai", OPENAI)}
        with self._changed:
            self._arrived += 1
            number = self._arrived
            try:
                if method != "POST" or path not in routes:
                    self.violations.append(f"request {number}: {method} {path} leads nowhere")
                    return _error(OPENAI.error(404, f"Invalid URL ({method} {path})"), number)
                protocol, dialect = routes[path]
                delivery, exchange = self._exchange(protocol, dialect, headers, content, number)
                self.log.append(exchange)
                return delivery
            finally:
                self._changed.notify_all()

    def _exchange(
        self, protocol: str, dialect: Dialect, headers: dict[str, str], content: bytes, number: int
    ) -> tuple[Delivery, Exchange]:
        """Check, ask the script, count, and plan what is sent."""

        def failed(reply: ErrorReply, seen: Seen | None = None, step: Step | None = None) -> Any:
            return _error(reply, number), Exchange(number, self._now(), protocol, reply.status, seen, step)

        def broken(complaint: str, reply: ErrorReply) -> Any:
            self.violations.append(f"request {number} ({protocol}): {complaint}")
            return failed(reply)

        try:
            body = _parsed(content)
            dialect.check(headers, body)
            seen, blocks = dialect.see(body, headers, number), dialect.blocks(body)
            tokens = tokens_in("".join(block.text for block in blocks))
            if tokens > self._window:
                return failed(dialect.too_long(tokens, self._window), seen)
            step = self._step(seen)
            if reply := dialect.failure(step, tokens, self._window):
                return failed(reply, seen, step)
            assert not isinstance(step, Failure)
            answer = step if isinstance(step, Answer) else step.answer
            if answer is None:
                delivery = Delivery(complete=False, silence_s=_silence_s(step))
                return delivery, Exchange(number, self._now(), protocol, 0, seen, step)
            prompt = self._caches[protocol].use(seen.model, blocks)
            include_usage = bool((body.get("stream_options") or {}).get("include_usage"))
            draft = Draft(answer, number, seen.model, prompt, include_usage)
            delivery = _delivery(step, dialect, draft)
        except BadRequest as error:
            return broken(str(error), dialect.error(error.status, str(error)))
        except Exception as error:  # noqa: BLE001  (a script is the test's own code: whatever it raises is told)
            trace = "".join(traceback.format_exception(error))
            return broken(f"no answer could be made: {trace}", dialect.error(500, f"no answer: {error!r}"))
        return delivery, Exchange(number, self._now(), protocol, 200, seen, step, prompt, draft.output_tokens)

    def _step(self, seen: Seen) -> Step:
        if callable(self._script):
            return self._script(seen)
        if self._next_step >= len(self._script):
            raise LookupError(f"the script has only {len(self._script)} steps, and was asked for one more")
        self._next_step += 1
        return self._script[self._next_step - 1]


def _parsed(content: bytes) -> Any:
    try:
        return json.loads(content)
    except ValueError as error:
        raise BadRequest(f"We could not parse the JSON body of your request: {error}") from error


def _error(reply: ErrorReply, number: int) -> Delivery:
    return Delivery.of_json(
        reply.status, reply.body, retry_after_s=reply.retry_after_s, request_id=f"req_{number:04d}"
    )


def _silence_s(step: Step) -> float:
    return step.seconds if isinstance(step, Hang) else 0.0


def _delivery(step: Step, dialect: Dialect, draft: Draft) -> Delivery:
    """Put an answer into events, and break it where the step says so."""
    told = dialect.events(draft)
    if isinstance(step, StreamError | CutOff | Hang):
        told = told[: step.after_events]
    if isinstance(step, StreamError):
        told.append(dialect.error_event(step.kind))
    frames = tuple(event.encode() for event in told)
    is_whole = not isinstance(step, CutOff | Hang)
    return Delivery(200, frames, True, is_whole, _silence_s(step), request_id=f"req_{draft.number:04d}")
