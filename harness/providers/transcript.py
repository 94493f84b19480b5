"""Every request to a language model and every reply, one JSON object per line.

In: requests and replies, which are redacted on their way. Out: `transcript.jsonl` (mode 0600) that a person
can read a year later. System text and tools are written in full where they first appear and by their hash
afterwards.
"""

import hashlib
import json
import logging
import os
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from harness.providers.chat import AssistantTurn, Reply, Request, ToolCall, Turn
from harness.redaction import NO_SECRETS, Secrets, redact, redact_keys

_log = logging.getLogger(__name__)


def request_hash(request: Request) -> str:
    """SHA-256 over everything the model sees: system, tools, turns."""
    return _sha({"system": request.system, "tools": _tools(request), "turns": _turns(request)})


def redacted_request(request: Request, known: Secrets = NO_SECRETS) -> Request:
    """The request without secrets; applying it twice changes nothing more."""
    turns = tuple(_redacted_turn(turn, known) for turn in request.turns)
    return replace(request, system=redact(request.system, known), turns=turns)


def redacted_reply(reply: Reply, known: Secrets = NO_SECRETS) -> Reply:
    """The reply without keys. What a model decides is carried out: a telling name in front of a value
    (`token = tokenizer.decode(ids)`) is no reason to rewrite it."""
    calls = tuple(_redacted_call(call, known) for call in reply.calls)
    return replace(reply, text=redact_keys(reply.text, known), calls=calls)


class Transcript:
    """The transcript of one experiment, opened for appending with each line. A line that cannot be written
    (full disk) is missing from it, is warned of once, and stops nothing."""

    def __init__(self, path: Path, secrets: Secrets) -> None:
        self.path = path
        self.secrets = secrets
        self._written: set[str] = set()
        self._is_failing = False

    def request(self, call: int, model: str, request: Request, time: float) -> None:
        request = redacted_request(request, self.secrets)
        line: dict[str, Any] = {"kind": "request", "call": call, "time": time, "model": model}
        line["hash"] = request_hash(request)
        parts: tuple[tuple[str, Any], ...] = (("system", request.system), ("tools", _tools(request)))
        for name, part in parts:
            sha = _sha(part)
            line[f"{name}_sha256"] = sha
            if sha not in self._written:
                line[name] = part
                self._written.add(sha)
        self._append(line | {"turns": _turns(request), "max_output_tokens": request.max_output_tokens})

    def reply(self, call: int, hash: str, reply: Reply, cost_usd: float | None, time: float) -> None:
        """`cost_usd`: None when the price is not known."""
        line = {"kind": "reply", "call": call, "time": time, "hash": hash, "cost_usd": cost_usd}
        self._append(line | asdict(redacted_reply(reply, self.secrets)))

    def failure(self, call: int, hash: str, error: str, cost_usd: float | None, time: float) -> None:
        line = {"kind": "failure", "call": call, "time": time, "hash": hash, "cost_usd": cost_usd}
        self._append(line | {"error": redact(error, self.secrets)})

    def _append(self, line: dict[str, Any]) -> None:
        try:
            self._write(json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n")
            self._is_failing = False
        except OSError as error:
            if not self._is_failing:
                _log.warning("%s cannot be written (%s); going on without it", self.path, error.strerror)
            self._is_failing = True
            self._written.clear()  # what was to be written in full may be what is missing

    def _write(self, text: str) -> None:
        fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        with os.fdopen(fd, "rb+") as file:
            size = file.seek(0, os.SEEK_END)
            if size and os.pread(fd, 1, size - 1) != b"\n":
                text = "\n" + text  # the last line was torn: keep this one whole
            file.write(text.encode(errors="backslashreplace"))


def _sha(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _tools(request: Request) -> list[dict[str, Any]]:
    return [asdict(tool) for tool in request.tools]


def _turns(request: Request) -> list[dict[str, Any]]:
    return [{"side": turn.side, **asdict(turn)} for turn in request.turns]


def _redacted_turn(turn: Turn, known: Secrets) -> Turn:
    if isinstance(turn, AssistantTurn):  # it reads back what it decided, in its own words
        call = turn.call and _redacted_call(turn.call, known)
        return AssistantTurn(redact_keys(turn.text, known), call)
    return replace(turn, text=redact(turn.text, known))


def _redacted_call(call: ToolCall, known: Secrets) -> ToolCall:
    """JSON stays JSON: each of its strings is masked by itself, as a mask may swallow quotes."""
    masked = redact_keys(call.arguments, known)
    if masked != call.arguments:
        try:
            masked = json.dumps(_masked(json.loads(call.arguments), known), ensure_ascii=False)
        except ValueError:
            pass  # it was no JSON before
    return replace(call, arguments=masked)


def _masked(value: Any, known: Secrets) -> Any:
    if isinstance(value, dict):
        return {redact_keys(key, known): _masked(inner, known) for key, inner in value.items()}
    if isinstance(value, list):
        return [_masked(inner, known) for inner in value]
    return redact_keys(value, known) if isinstance(value, str) else value
