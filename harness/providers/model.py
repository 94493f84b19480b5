"""`Model`: one language model as policies see it, with limits, patience and a record of every call.

In: a `Request` and what was spent so far. Out: the `Reply`, after the journal has it. The order makes the
accounting hold whatever dies in between: limits are checked, the most the call can cost is reserved in the
journal, only then does the request leave, and its end is recorded before anybody acts on it. What is sent,
hashed and written is the redacted request; what is handed back is the redacted reply.
"""

import asyncio
import logging
import random
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from harness.journal.model_events import LlmFailed, LlmReserved, LlmRetried, LlmSettled
from harness.journal.order import Event
from harness.providers.chat import (
    Provider,
    ProviderError,
    Reply,
    Request,
    UnavailableError,
    Usage,
)
from harness.providers.cost import Limits, Price, Spending, after, cost, warning, why_not, worst_case
from harness.providers.transcript import Transcript, redacted_reply, redacted_request, request_hash
from harness.redaction import redact
from harness.wording import duration
from monitors.clock import Clock, SystemClock

FIRST_WAIT_S = 2.0
LONGEST_WAIT_S = 300.0
MOST_TRIES = 200
WARN_EVERY_S = 3600.0

_log = logging.getLogger(__name__)


class AskError(Exception):
    """The model was not asked, or not until it answered."""


class LimitReachedError(AskError):
    """A limit on calls or cost forbids the (next) try."""


class OutOfPatienceError(AskError):
    """The provider stayed unavailable for as long as the caller would wait, or for MOST_TRIES tries."""


class InterruptedAskError(AskError):
    """The caller's event was set while the model was waited for."""


@dataclass
class _Call:
    """One call while it is being made: its tries, and what the failed ones cost (None: not known).
    `in_flight`: a try is on its way; cut off now, it may be charged in full."""

    number: int
    digest: str
    reserve: float | None
    tries: int = 0
    cost: float | None = 0.0
    recorded_cost: float | None = 0.0
    in_flight: bool = False
    is_estimated: bool = False

    def add(self, usd: float | None) -> None:
        self.cost = None if self.cost is None or usd is None else self.cost + usd

    def end(self) -> dict[str, Any]:
        """What the journal keeps of any end."""
        return {
            "call": self.number,
            "cost_usd": self.cost,
            "is_estimated": self.is_estimated,
            "tries": self.tries,
        }


class Model:
    """One model behind one provider; `ask` may be called again and again, one call at a time."""

    def __init__(
        self,
        provider: Provider,
        price: Price | None,
        limits: Limits,
        record: Callable[[Event], object],
        transcript: Transcript,
        clock: Clock | None = None,
        jitter: random.Random | None = None,
    ) -> None:
        """`record` writes one event to a journal and returns once it is on the disk; `price` None:
        not known. The transcript's secrets are masked in everything that leaves or is kept."""
        self.name = f"{provider.name}:{provider.model}"
        self.limits = limits
        self.price = price
        self._provider = provider
        self._record = record
        self._transcript = transcript
        self._clock = clock or SystemClock()
        self._jitter = jitter or random.Random()

    async def ask(
        self,
        request: Request,
        spending: Spending,
        *,
        patience_s: float,
        interrupted: asyncio.Event | None = None,
    ) -> Reply:
        """The model's reply, waiting up to `patience_s` seconds for a provider that is unavailable.

        Raises LimitReachedError, OutOfPatienceError, InterruptedAskError (when `interrupted` is set before
        the reply is there), and the provider's RejectedError and RequestTooLongError. Whatever ends it, the
        journal has an `llm_settled` or `llm_failed` for the `llm_reserved` it wrote.
        """
        interrupted = interrupted or asyncio.Event()
        if interrupted.is_set():
            raise InterruptedAskError(f"{self.name} was not asked: the wait was interrupted before")
        request = redacted_request(request, self._transcript.secrets)
        reserve = worst_case(request, self.price) if self.price else None
        call = _Call(spending.calls + 1, request_hash(request), reserve)
        self._check(spending, self.limits, reserve)
        reserved = LlmReserved(call.number, reserve, self.name, call.digest)
        self._record(reserved)
        begun = after(spending, reserved)
        try:
            self._transcript.request(call.number, self.name, request, self._clock.time())
            reply = await self._until_answered(request, begun, call, patience_s, interrupted)
        except BaseException as error:
            self._failed(call, error)
            raise
        else:
            return self._settled(call, reply)
        finally:
            now = after(begun, LlmFailed(call.number, call.cost, ""))
            if sentence := warning(spending, now, self.limits):
                _log.warning("%s", sentence)

    async def close(self) -> None:
        await self._provider.close()

    async def _until_answered(
        self,
        request: Request,
        begun: Spending,
        call: _Call,
        patience_s: float,
        interrupted: asyncio.Event,
    ) -> Reply:
        start = self._clock.time()
        warned_at: float | None = None
        while True:
            try:
                return await self._try(request, call, interrupted)
            except UnavailableError as error:
                now = self._clock.time()
                text = redact(str(error), self._transcript.secrets)
                self._note(call, text)
                remaining = start + patience_s - now
                if remaining <= 0 or call.tries >= MOST_TRIES:
                    raise OutOfPatienceError(
                        f"{self.name} did not answer within {duration(now - start)} "
                        f"({call.tries} tries): {error}"
                    ) from error
                if warned_at is None or now - warned_at >= WARN_EVERY_S:
                    waited, patience = duration(now - start), duration(patience_s)
                    message = "%s does not answer since %s; trying again for up to %s in all. %s"
                    _log.warning(message, self.name, waited, patience, text)
                    warned_at = now
                spent = Spending(0, begun.cost_usd + (call.cost or 0.0))  # the failed tries count, too
                self._check(spent, Limits(self.limits.max_cost_usd), call.reserve)
                await self._clock.wait(interrupted, min(self._pause(call.tries, error), remaining))
                if interrupted.is_set():
                    raise InterruptedAskError(f"waiting for {self.name} was interrupted: {error}") from error

    async def _try(self, request: Request, call: _Call, interrupted: asyncio.Event) -> Reply:
        """One try. A try that is cut off from here leaves `call.in_flight` set: what it cost is unknown."""
        call.tries += 1
        call.in_flight = True
        reply = asyncio.ensure_future(self._provider.complete(request))
        stop = asyncio.ensure_future(interrupted.wait())
        try:
            await asyncio.wait({reply, stop}, return_when=asyncio.FIRST_COMPLETED)
            if not reply.done():
                raise InterruptedAskError(f"{self.name} was interrupted while it answered")
            error = reply.exception()
            if error is None or isinstance(error, ProviderError):
                call.in_flight = False
                usage = error.usage or Usage() if error else reply.result().usage
                call.add(cost(usage, self.price) if self.price else None)
                call.is_estimated |= bool(error and error.is_estimated)
            return reply.result()
        finally:
            reply.cancel()
            stop.cancel()
            await asyncio.gather(reply, stop, return_exceptions=True)

    def _pause(self, tries: int, error: ProviderError) -> float:
        """Seconds until the next try: doubling with jitter, never before the server asked for it."""
        backoff = FIRST_WAIT_S * 2 ** min(tries - 1, 20)
        return max(min(backoff * self._jitter.uniform(0.5, 1.0), LONGEST_WAIT_S), error.retry_after_s or 0.0)

    def _note(self, call: _Call, text: str) -> None:
        """Journal the first failure that may pass, and each that cost something, so that a kill forgets no
        spending. The end of the call counts the tries."""
        if call.tries == 1 or call.cost != call.recorded_cost:
            call.recorded_cost = call.cost
            at_most = None if call.cost is None or call.reserve is None else call.cost + call.reserve
            self._record(LlmRetried(call.number, text, call.tries, call.cost, at_most))

    def _settled(self, call: _Call, reply: Reply) -> Reply:
        reply = redacted_reply(reply, self._transcript.secrets)
        calls = tuple(asdict(each) for each in reply.calls)
        usage, stop = asdict(reply.usage), reply.stop.value
        self._record(LlmSettled(**call.end(), usage=usage, stop=stop, text=reply.text, calls=calls))
        self._transcript.reply(call.number, call.digest, reply, call.cost, self._clock.time())
        return reply

    def _failed(self, call: _Call, error: BaseException) -> None:
        if call.in_flight:  # the request was on its way: the provider may charge for all of it
            call.is_estimated = True
            call.add(call.reserve)
        text = redact(str(error) or type(error).__name__, self._transcript.secrets)
        self._record(LlmFailed(**call.end(), error=text))
        self._transcript.failure(call.number, call.digest, text, call.cost, self._clock.time())

    def _check(self, spending: Spending, limits: Limits, reserve: float | None) -> None:
        if reason := why_not(spending, limits, reserve, self.name):
            raise LimitReachedError(reason)
