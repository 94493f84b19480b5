"""`ModelServer`: answers both protocols from a script and keeps a `log` with one `Exchange` per request.

Leaving the `with` block raises when there are `violations` (what the real servers would have refused) that
nobody took.
"""

import json
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from threading import Condition
from types import ModuleType, TracebackType

from harness.providers import trial
from tests.model_server import anthropic_dialect, openai_dialect
from tests.model_server.caching import AnthropicCache, OpenAICache, PromptTokens
from tests.model_server.prompt import BadRequest, Draft
from tests.model_server.seen import Seen
from tests.model_server.steps import Broken, Failure, Script, Step, say
from tests.model_server.transport import Delivery, Loopback

ROUTES: dict[str, ModuleType] = {"/v1/messages": anthropic_dialect, "/v1/chat/completions": openai_dialect}

UNFINISHED = "Let me look at the log before anything else is decided."


@dataclass(frozen=True)
class Exchange:
    """One request and what it cost. `prompt` is None, and nothing is charged, where it failed; `at` is the
    server's clock; a request that breaks the rules has no `seen`."""

    number: int
    at: float
    seen: Seen | None = None
    prompt: PromptTokens | None = None
    output_tokens: int = 0


class ModelServer:
    """A model behind both protocols, on a free port of 127.0.0.1; a context manager. `now` in seconds, for
    the prompt caches. The small request that the harness tries a model with is answered, counted in `trials`,
    and not shown to the script."""

    def __init__(self, script: Script, *, now: Callable[[], float] = time.time) -> None:
        self._script = script
        self._next_step = 0
        self._now = now
        self._caches = {anthropic_dialect: AnthropicCache(now), openai_dialect: OpenAICache(now)}
        self._changed = Condition()
        self._arrived = self.trials = 0
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
                raise TimeoutError(f"request {number} has not come in {timeout_s:g} s, only {self._arrived}")

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
            raise AssertionError("\n".join(["it was sent what no real one takes:", *self.violations]))

    def _respond(self, path: str, headers: dict[str, str], content: bytes) -> Delivery:
        with self._changed:
            if path in ROUTES and trial.REQUEST.turns[0].text.encode() in content:
                self.trials += 1
                return self._answered_trial(ROUTES[path], headers, content)
            self._arrived += 1
            number = self._arrived
            try:
                if path not in ROUTES:
                    self.violations.append(f"request {number}: {path} leads nowhere")
                    return openai_dialect.error(404, f"Invalid URL ({path})")
                delivery, exchange = self._exchange(ROUTES[path], headers, content, number)
                self.log.append(exchange)
                return delivery
            finally:
                self._changed.notify_all()

    def _answered_trial(self, dialect: ModuleType, headers: dict[str, str], content: bytes) -> Delivery:
        prompt = dialect.read(headers, json.loads(content))
        prompt.check()
        tokens = self._caches[dialect].use(prompt.model, prompt.blocks)
        return _delivery(say("ready"), dialect, Draft(say("ready"), 0, prompt, tokens))

    def _exchange(
        self, dialect: ModuleType, headers: dict[str, str], content: bytes, number: int
    ) -> tuple[Delivery, Exchange]:
        """Check, ask the script, count, and plan what is sent."""
        failed = Exchange(number, self._now())
        try:
            body = json.loads(content)
            prompt = dialect.read(headers, body)
            prompt.check()
            seen = prompt.seen(number, body, headers)
            failed = Exchange(number, self._now(), seen)
            step = self._step(seen)
            if isinstance(step, Failure):
                return dialect.failure(step), failed
            if isinstance(step, Broken) and step.seconds:
                return Delivery(complete=False, silence_s=step.seconds), failed
            tokens = self._caches[dialect].use(prompt.model, prompt.blocks)
            answer = say(UNFINISHED) if isinstance(step, Broken) else step
            draft = Draft(answer, number, prompt, tokens)
            exchange = Exchange(number, self._now(), seen, tokens, draft.output_tokens)
            return _delivery(step, dialect, draft), exchange
        except BadRequest as error:
            complaint, reply = str(error), dialect.error(error.status, str(error))
        except Exception as error:  # noqa: BLE001  (a script is the test's own code: whatever it raises is told)
            complaint = f"no answer could be made: {''.join(traceback.format_exception(error))}"
            reply = dialect.error(500, f"no answer: {error!r}")
        self.violations.append(f"request {number}: {complaint}")
        return reply, failed

    def _step(self, seen: Seen) -> Step:
        if callable(self._script):
            return self._script(seen)
        if self._next_step >= len(self._script):
            raise LookupError(f"the script has only {len(self._script)} steps, and was asked for one more")
        self._next_step += 1
        return self._script[self._next_step - 1]


def _delivery(step: Step, dialect: ModuleType, draft: Draft) -> Delivery:
    """Put an answer into events, and break it where the step says so."""
    told = dialect.events(draft)
    if isinstance(step, Broken):
        told = told[: step.after_events] + ([dialect.error_event(step.kind)] if step.kind else [])
    is_whole = not isinstance(step, Broken) or bool(step.kind)
    frames = tuple(event.encode() for event in told)
    return Delivery(200, frames, True, is_whole)
