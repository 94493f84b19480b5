"""What a language model costs that watches a training: calls, tokens and money, on simulated trainings.

Ours is the harness's own LLM policy with everything around it that decides what is sent and when, over HTTP,
to a server that simulates the prompt caches (`_simulated_run.py` says what is real). The model's replies are
scripted: for the failure it searches the log, reads the last 80 lines and the metrics, edits the config,
keeps a note, checks and launches; for the results it writes two sections in one call. Two more runs leave
out the last looks before the repair, to see when a wake is too short for its cache.

The peer is an agent that follows the published skill "wait, then read the last 80 lines of the tmux window":
it waits 30 s, 1, 2, 4, 8, then 16 minutes at a time, wakes early when the command ends, and every look stays
in its conversation. It is simulated call by call, without a prompt cache and with Anthropic's (marks after
the skill and after the last message, kept for 5 minutes, as is usual, which longer waits find cold; or for an
hour). In its favour: the skill and the plan are all it is told and a shell is its only tool, where coding
agents bring thousands of tokens more; one look suffices to understand a failure, and one edit to repair it;
at 200,000 tokens its conversation becomes a summary of 2,000.

The same for both: the console, which has short metric lines, the failure, the length of words, notes and
reports; an answer takes no time. Tokens are bytes divided by four.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from _claim import Row, parser, publish
from _simulated_run import STARTS_AT, Run, Wake, simulate
from _skill_follower import MODEL, NOTE_BYTES, REPORT_BYTES, WORDS_BYTES, Spent, filler, peer
from _training_console import TRAININGS, Training

from harness.providers.cost import Price, cost, price_of
from tests.model_server.caching import FIVE_MINUTES_S, ONE_HOUR_S
from tests.model_server.seen import Seen
from tests.model_server.server import Exchange
from tests.model_server.steps import Answer, Script, call, say_and_call

CACHES = {"no cache": None, "kept 5 minutes": FIVE_MINUTES_S, "kept an hour": ONE_HOUR_S}
MODELS = {"anthropic": MODEL, "openai": "gpt-scripted"}
MOST_CLEAN_CALLS = 6
FEWER_TOKENS = 20
LONG_WAKE_CALLS = 5
READ_SHARE = 0.8


# --- what the scripted model answers ----------------------------------------------------------------------


def says(tool: str, **arguments: Any) -> Answer:
    """A call with as many words beside it as the peer has for its commands."""
    return say_and_call(filler(WORDS_BYTES), tool, **arguments)


WHY = "The update of the actor ran out of GPU memory: half the micro-batch, the same effective batch."
LOOKS = (
    says("search_log", pattern="error|out of memory|killed", around=8),
    says("read_pane", lines=80),
    says("metrics_summary"),
)
REPAIR = (
    says("edit_config", changes={"actor.ppo_micro_batch_size_per_gpu": 8}, why=WHY),
    says("note", text=filler(NOTE_BYTES)),
    says("check"),
    says("launch", why=WHY),
)
WORDS = ("The rate went up and stayed there for the rest of the training. " * 40)[: REPORT_BYTES // 2]
RESULTS = (
    says(
        "write_sections",
        sections=[{"section": name, "interpretation": WORDS} for name in ("findings", "what_happened")],
    ),
)


def script(repair: Sequence[Answer]) -> Script:
    """A model that answers a failure with `repair` and results with a report; an alarm it lets be."""

    def answer(seen: Seen) -> Answer:
        asked = seen.turns[0].text
        if "The experiment is over" in asked:
            return RESULTS[len(seen.calls)]
        return call("wait") if "was noticed" in asked else repair[len(seen.calls)]

    return answer


def run(training: Training, protocol: str, repair: Sequence[Answer]) -> Run:
    """One run of ours in a folder of its own, which is thrown away."""
    price = price_of(protocol, MODELS[protocol], None, {})
    with tempfile.TemporaryDirectory() as folder:
        steps = script(repair)
        return asyncio.run(simulate(training, protocol, MODELS[protocol], price, steps, Path(folder)))


# --- counting ---------------------------------------------------------------------------------------------


def spent(wakes: Sequence[Wake]) -> list[Spent]:
    """Our calls in the words of the peer's."""
    calls = [(wake, exchange) for wake in wakes for exchange in wake.calls]
    return [_spent(wake.topic, exchange) for wake, exchange in calls]


def _spent(topic: str, exchange: Exchange) -> Spent:
    assert exchange.prompt is not None, f"call {exchange.number} failed"
    is_healthy = topic.startswith("alarm:")
    return Spent(exchange.at - STARTS_AT, is_healthy, exchange.prompt, exchange.output_tokens)


def input_tokens(calls: Sequence[Spent]) -> int:
    return sum(call.prompt.total for call in calls)


def output_tokens(calls: Sequence[Spent]) -> int:
    return sum(call.output_tokens for call in calls)


def read_share(calls: Sequence[Spent]) -> float:
    """The share of the input tokens that a cache gave."""
    return sum(call.prompt.cache_read for call in calls) / input_tokens(calls)


def paid(calls: Sequence[Spent], price: Price) -> str:
    money = sum(cost(call.usage, price) for call in calls)
    return f"{money:.2f} USD, {read_share(calls):.0%} of input cached"


def prefixes(wakes: Sequence[Wake]) -> set[tuple[str, str]]:
    """The different prefixes of the requests by kind of question: tools and system text as they went over the
    wire."""
    return {(wake.topic.partition(":")[0], _prefix(call)) for wake in wakes for call in wake.calls}


def _prefix(exchange: Exchange) -> str:
    assert exchange.seen is not None
    body = exchange.seen.body
    system = body["system"] if "system" in body else body["messages"][0]
    return hashlib.sha256(json.dumps([body["tools"], system]).encode()).hexdigest()


def verdict(is_met: bool) -> str:
    return "met" if is_met else "MISSED"


# --- the table --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Watched:
    """One training over one protocol: rows beside the peer, rows by wake, prefixes, raw numbers."""

    compared: list[Row]
    wakes: list[Row]
    prefixes: set[tuple[str, str]]
    raw: dict[str, Any]


def compared(
    training: Training, ours: list[Spent], by_cache: dict[str, list[Spent]], price: Price
) -> list[Row]:
    """The rows that set our calls for one training beside the peer's, which are the same under each cache."""
    theirs = by_cache["no cache"]
    healthy = sum(call.healthy for call in ours)
    fewer = (input_tokens(theirs) + output_tokens(theirs)) / (input_tokens(ours) + output_tokens(ours))
    is_clean = training.breaks_at_s is None
    most = f"≤ {MOST_CLEAN_CALLS}: {verdict(len(ours) <= MOST_CLEAN_CALLS)}" if is_clean else ""
    rows = [
        Row("calls", f"{len(ours)}", most, f"{len(theirs)}"),
        Row(
            "calls while nothing was wrong",
            f"{healthy}",
            f"0: {verdict(healthy == 0)}",
            f"{sum(call.healthy for call in theirs)}",
        ),
        Row("input tokens", f"{input_tokens(ours):,}", "", f"{input_tokens(theirs):,}"),
        Row("output tokens", f"{output_tokens(ours):,}", "", f"{output_tokens(theirs):,}"),
        Row("fewer tokens", f"{fewer:.0f} ×", f"≥ {FEWER_TOKENS} ×: {verdict(fewer >= FEWER_TOKENS)}", ""),
    ]
    for cache, calls in by_cache.items():
        rows.append(Row(f"cost (peer: {cache})", paid(ours, price), "", paid(calls, price)))
    return [Row(f"{training.name}: {row.what}", row.ours, row.goal, row.peer) for row in rows]


def wake_row(name: str, wake: Wake) -> Row:
    """What the caches gave in one wake. Where its first call finds them cold and each prompt contains the one
    before, n calls read less than (n - 1) / n of their tokens, whatever is sent."""
    calls = spent([wake])
    share, most = read_share(calls), (len(calls) - 1) / len(calls)
    goal = f"≥ {READ_SHARE:.0%}: {verdict(share >= READ_SHARE)}"
    if share < READ_SHARE and most <= READ_SHARE and calls[0].prompt.cache_read == 0:
        goal += f" (cold start: < {most:.0%})"
    if len(calls) < LONG_WAKE_CALLS:
        goal = f"none for < {LONG_WAKE_CALLS} calls"
    said = f"{share:.1%} from a cache, {len(calls)} calls, {input_tokens(calls):,} tokens"
    return Row(f"{name}: {wake.topic}", said, goal, "")


def watched(training: Training, protocol: str, price: Price) -> Watched:
    """All our runs of one training over one protocol, and with Anthropic's the peer's beside them."""
    ours = run(training, protocol, (*LOOKS, *REPAIR))
    name = f"{training.name}, {protocol}"
    end = f"{ours.outcome.value}, launches: {ours.launches}"
    rows = [Row(f"{name}: end", end, "", ""), *(wake_row(name, wake) for wake in ours.wakes)]
    wakes = {wake.topic: spent([wake]) for wake in ours.wakes}
    requests = list(ours.wakes)
    for looks in (2, 1) if training.breaks_at_s is not None else ():
        failure = run(training, protocol, (*LOOKS[:looks], *REPAIR)).wakes[0]
        rows.append(wake_row(f"{name}, {looks} looks", failure))
        wakes[f"{failure.topic}, {looks} looks"] = spent([failure])
        requests.append(failure)
    beside: list[Row] = []
    by_cache: dict[str, list[Spent]] = {}
    if protocol == "anthropic":
        by_cache = {cache: peer(training, keep_s) for cache, keep_s in CACHES.items()}
        beside = compared(training, spent(ours.wakes), by_cache, price)
    raw = {"end": end, "ours": _json(wakes), "peer": _json(by_cache)}
    return Watched(beside, rows, prefixes(requests), raw)


def main() -> None:
    options = parser(__doc__, quick="only the clean run, over one protocol").parse_args()
    price = price_of("anthropic", MODEL, None, {})
    assert price is not None, f"the price table does not know {MODEL}"
    trainings, protocols = TRAININGS, list(MODELS)
    if options.quick:
        trainings, protocols = trainings[:1], protocols[:1]
    done = {(each.name, name): watched(each, name, price) for each in trainings for name in protocols}
    table = [row for found in done.values() for row in found.compared]
    table += [row for found in done.values() for row in found.wakes]
    for protocol in protocols:
        seen = set().union(*(found.prefixes for (_, name), found in done.items() if name == protocol))
        kinds = len({kind for kind, _ in seen})
        what = f"{protocol}: different prefixes (tools, system) of {kinds} kinds of question"
        table.append(Row(what, f"{len(seen)}", f"{kinds}: {verdict(len(seen) == kinds)}", ""))
    raw = {f"{name}, {protocol}": found.raw for (name, protocol), found in done.items()}
    publish(f"a {MODEL} watches a training; peer: the skill's schedule, simulated", table, options, raw)


def _json(calls: dict[str, list[Spent]]) -> dict[str, list[dict[str, Any]]]:
    return {name: [asdict(call) for call in each] for name, each in calls.items()}


if __name__ == "__main__":
    main()
