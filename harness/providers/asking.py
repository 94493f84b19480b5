"""`Model`: one language model as policies see it, with limits, patience and a record of every call.

In: a `Request` and what was spent so far. Out: the `Reply`, after the journal has it. The order makes the
accounting hold whatever dies in between: limits are checked, the most the call can cost is reserved in the
journal, only then does the request leave, and its end is recorded before anybody acts on it. What is sent,
hashed and written is the redacted request; what is handed back is the redacted reply.
"""

import asyncio
import logging
import random
import re
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

from harness.providers.prices import Price, cost, worst_case
from harness.providers.spending import Limits, Spending, after, warning, why_not
from harness.providers.transcript import Transcript, redacted_reply, redacted_request, request_hash
from harness.providers.types import Provider, ProviderError, Reply, Request, UnavailableError, Usage
from harness.redaction import redact
from monitors.clock import Clock, SystemClock

FIRST_WAIT_S = 2.0
LONGEST_WAIT_S = 300.0
MOST_TRIES = 200
WARN_EVERY_S = 3600.0
MOST_KINDS_RECORDED = 10

_VARYING = re.compile(r"\breq_\w+|\b[0-9a-f]{8,}\b|\d+(?:\.\d+)?")
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
class _Ledger:
    """One call while it is being made: its tries, what the failed ones cost, and how they failed."""

    number: int
    reserve: float | None
    tries: int = 0
    cost: float | None = 0.0
    recorded_cost: float | None = 0.0
    in_flight: bool = False
    is_estimated: bool = False
    kinds: dict[str, int] = field(default_factory=dict)

    @property
    def at_most(self) -> float | None:
        """What the call can have cost when the next try ends badly, too."""
        return None if self.cost is None or self.reserve is None else self.cost + self.reserve

    def add(self, usd: float | None) -> None:
        self.cost = None if self.cost is None or usd is None else self.cost + usd


class Model:
    """One model behind one provider; `ask` may be called again and again, one call at a time."""

    def __init__(
        self,
        provider: Provider,
        price: Price | None,
        limits: Limits,
        record: Callable[..., Any],
        transcript: Transcript,
        clock: Clock | None = None,
        jitter: random.Random | None = None,
    ) -> None:
        """`record(kind, **data)` writes one journal entry and returns once it is on the disk; `price` None:
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
        digest = request_hash(request)
        ledger = _Ledger(spending.calls + 1, worst_case(request, self.price) if self.price else None)
        self._check_limits(spending, ledger.reserve)
        reserved = {"call": ledger.number, "reserved_usd": ledger.reserve}
        self._record("llm_reserved", **reserved, model=self.name, request=digest)
        begun = after(spending, "llm_reserved", reserved)
        try:
            self._transcript.request(ledger.number, self.name, request, self._clock.time())
            reply = await self._until_answered(request, begun, ledger, patience_s, interrupted)
        except BaseException as error:
            self._failed(ledger, digest, error)
            self._warn_of_limits(spending, begun, ledger)
            raise
        reply = self._settled(ledger, digest, reply)
        self._warn_of_limits(spending, begun, ledger)
        return reply

    async def close(self) -> None:
        await self._provider.close()

    async def _until_answered(
        self,
        request: Request,
        begun: Spending,
        ledger: _Ledger,
        patience_s: float,
        interrupted: asyncio.Event,
    ) -> Reply:
        start = self._clock.time()
        warned_at: float | None = None
        while True:
            try:
                return await self._try(request, ledger, interrupted)
            except UnavailableError as error:
                now = self._clock.time()
                if warned_at is None or now - warned_at >= WARN_EVERY_S:
                    self._warn_of_wait(error, now - start, patience_s)
                    warned_at = now
                self._note(ledger, error)
                remaining = start + patience_s - now
                if remaining <= 0 or ledger.tries >= MOST_TRIES:
                    raise OutOfPatienceError(
                        f"{self.name} did not answer within {_duration(now - start)} "
                        f"({ledger.tries} tries): {error}"
                    ) from error
                self._check_retry(begun, ledger)
                await self._clock.wait(interrupted, min(self._pause(ledger.tries, error), remaining))
                if interrupted.is_set():
                    raise InterruptedAskError(f"waiting for {self.name} was interrupted: {error}") from error

    async def _try(self, request: Request, ledger: _Ledger, interrupted: asyncio.Event) -> Reply:
        """One try. A try that is cut off from here leaves `ledger.in_flight` set: what it cost is unknown."""
        ledger.tries += 1
        ledger.in_flight = True
        reply = asyncio.ensure_future(self._provider.complete(request))
        stop = asyncio.ensure_future(interrupted.wait())
        try:
            await asyncio.wait({reply, stop}, return_when=asyncio.FIRST_COMPLETED)
            if not reply.done():
                raise InterruptedAskError(f"{self.name} was interrupted while it answered")
            error = reply.exception()
            if isinstance(error, ProviderError):
                ledger.in_flight = False
                ledger.add(self._cost(error.usage or Usage()))
                ledger.is_estimated |= error.is_estimated
            elif error is None:
                ledger.in_flight = False
                ledger.add(self._cost(reply.result().usage))
            return reply.result()
        finally:
            reply.cancel()
            stop.cancel()
            await asyncio.gather(reply, stop, return_exceptions=True)

    def _pause(self, tries: int, error: UnavailableError) -> float:
        """Seconds until the next try: doubling with jitter, never before the server asked for it."""
        backoff = FIRST_WAIT_S * 2 ** min(tries - 1, 20)
        return max(min(backoff * self._jitter.uniform(0.5, 1.0), LONGEST_WAIT_S), error.retry_after_s or 0.0)

    def _note(self, ledger: _Ledger, error: UnavailableError) -> None:
        """Journal a failure that may pass: each that cost something, so that a kill forgets no spending, and
        the free ones once per kind. The end of the call counts them all."""
        text = redact(str(error), self._transcript.secrets)
        kind = _VARYING.sub("#", text)
        known = next((known for known in ledger.kinds if _VARYING.sub("#", known) == kind), None)
        is_new = known is None and len(ledger.kinds) < MOST_KINDS_RECORDED
        name = text if is_new else known or "other failures"
        ledger.kinds[name] = ledger.kinds.get(name, 0) + 1
        if is_new or ledger.cost != ledger.recorded_cost:
            ledger.recorded_cost = ledger.cost
            data = {"call": ledger.number, "error": text, "tries": ledger.tries}
            self._record("llm_retried", **data, cost_usd=ledger.cost, reserved_usd=ledger.at_most)

    def _settled(self, ledger: _Ledger, digest: str, reply: Reply) -> Reply:
        reply = redacted_reply(reply, self._transcript.secrets)
        self._record(
            "llm_settled",
            call=ledger.number,
            cost_usd=ledger.cost,
            usage=asdict(reply.usage),
            stop=reply.stop.value,
            text=reply.text,
            calls=[asdict(call) for call in reply.calls],
            is_estimated=ledger.is_estimated,
            tries=ledger.tries,
            failures=ledger.kinds,
        )
        self._transcript.reply(ledger.number, digest, reply, ledger.cost, self._clock.time())
        return reply

    def _failed(self, ledger: _Ledger, digest: str, error: BaseException) -> None:
        if ledger.in_flight:  # the request was on its way: the provider may charge for all of it
            ledger.is_estimated = True
            ledger.add(ledger.reserve)
        text = redact(str(error) or type(error).__name__, self._transcript.secrets)
        self._record(
            "llm_failed",
            call=ledger.number,
            cost_usd=ledger.cost,
            is_estimated=ledger.is_estimated,
            error=text,
            tries=ledger.tries,
            failures=ledger.kinds,
        )
        self._transcript.failure(ledger.number, digest, text, ledger.cost, self._clock.time())

    def _check_limits(self, spending: Spending, reserve: float | None) -> None:
        reason = why_not(spending, self.limits, reserve, self.name)
        if reason:
            raise LimitReachedError(reason)

    def _check_retry(self, begun: Spending, ledger: _Ledger) -> None:
        """The cost limit once more, with what the failed tries of this call cost."""
        spent = Spending(0, begun.cost_usd + (ledger.cost or 0.0))
        reason = why_not(spent, Limits(self.limits.max_cost_usd), ledger.reserve, self.name)
        if reason:
            raise LimitReachedError(reason)

    def _warn_of_limits(self, before: Spending, begun: Spending, ledger: _Ledger) -> None:
        sentence = warning(before, after(begun, "llm_settled", {"cost_usd": ledger.cost}), self.limits)
        if sentence:
            _log.warning("%s", sentence)

    def _warn_of_wait(self, error: UnavailableError, waited_s: float, patience_s: float) -> None:
        _log.warning(
            "%s does not answer since %s; trying again for up to %s in all. %s",
            self.name,
            _duration(waited_s),
            _duration(patience_s),
            redact(str(error), self._transcript.secrets),
        )

    def _cost(self, usage: Usage) -> float | None:
        return cost(usage, self.price) if self.price else None


def _duration(seconds: float) -> str:
    """12 s, 5 min, 3.5 h."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
