"""An agent that follows the published skill "wait, then read the last 80 lines of the tmux window".

In: a `Training` and how long its prompt cache keeps. Out: every call it makes, with its tokens. What is
assumed of it is said in `llm_cost.py`; the sizes of what it says are those of our side, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from _training_console import Training, console, launches

from harness.providers.chat import Usage
from tests.model_server.caching import AnthropicCache, Block, PromptTokens, tokens_in

MODEL = "claude-sonnet-4-5"
WINDOW_TOKENS = 200_000
SUMMARY_TOKENS = 2_000
WAITS_S = (30.0, 60.0, 120.0, 240.0, 480.0, 960.0)
LOOK_LINES = 80
SKILL_BYTES = 11_214  # the skill's published text, UTF-8
PLAN_BYTES = 1_500
SHELL_TOOL_BYTES = 400
WORDS_BYTES = 120  # what it says beside a command: "The training goes on normally, step 312. I wait on."
WAIT_SCRIPT_BYTES = 1_300
REPORT_BYTES = 3_000
NOTE_BYTES = 800


@dataclass(frozen=True)
class Spent:
    """One call: when, during what, and its tokens."""

    at_s: float
    healthy: bool
    prompt: PromptTokens
    output_tokens: int

    @property
    def usage(self) -> Usage:
        prompt = self.prompt
        return Usage(
            input_tokens=prompt.uncached,
            cache_read_tokens=prompt.cache_read,
            cache_write_tokens=prompt.cache_write_5m,
            cache_write_1h_tokens=prompt.cache_write_1h,
            output_tokens=self.output_tokens,
        )


class Peer:
    """The peer's conversation: what it says, what its shell answers, what each call is charged.

    `keep_s`: how long its cache marks ask for; None: it sets none.
    """

    def __init__(self, keep_s: float | None) -> None:
        self.at_s = 0.0
        self.spent: list[Spent] = []
        self._keep_s = keep_s
        self._cache = AnthropicCache(lambda: self.at_s)
        self._start = [filler(SHELL_TOOL_BYTES + SKILL_BYTES), filler(PLAN_BYTES)]
        self._said: list[str] = []

    def says(self, command: str, *, healthy: bool = False) -> None:
        """One call, answered with some words and a command."""
        if self._tokens(self._said) > WINDOW_TOKENS:
            self._compact(healthy)
        answer = filler(WORDS_BYTES) + command
        self._pay(self._said, tokens_in(answer), healthy)
        self._said.append(answer)

    def sees(self, output: str) -> None:
        """What its command printed, to be read with the next call."""
        self._said.append(output)

    def _compact(self, healthy: bool) -> None:
        """Sum up all but what was seen last, which is what did not fit any more."""
        before, last = self._said[:-2], self._said[-1]
        self._pay(before, SUMMARY_TOKENS, healthy)
        self._said = [filler(4 * SUMMARY_TOKENS), last]

    def _pay(self, said: list[str], output_tokens: int, healthy: bool) -> None:
        blocks = [Block(self._start[0], self._keep_s), *map(Block, [*self._start[1:], *said])]
        blocks[-1] = Block(blocks[-1].text, self._keep_s)
        self.spent.append(Spent(self.at_s, healthy, self._cache.use(MODEL, blocks), output_tokens))

    def _tokens(self, said: list[str]) -> int:
        return tokens_in("".join([*self._start, *said]))


def peer(training: Training, keep_s: float | None) -> list[Spent]:
    """Every call the peer makes for one training, from the plan to its last word."""
    agent = Peer(keep_s)
    for command, output in _preparations():
        agent.says(command)
        agent.sees(output)
    for launch, (begin, end) in enumerate(launches(training)):
        agent.at_s = begin
        if launch > 0:
            agent.says(f"edit config.yaml and trial_and_error.md: {filler(NOTE_BYTES)}")
            agent.sees("done")
        agent.says("tmux send-keys -t ajet_math_lr 'bash launch.sh' Enter")
        agent.sees("")
        for at_s, wait_s in looks(begin, end):
            agent.says(_look(wait_s), healthy=agent.at_s > begin)
            agent.at_s = at_s
            agent.sees("\n".join(console(training, launch, at_s, LOOK_LINES)))
    for command, output in _conclusions():
        agent.says(command)
        agent.sees(output)
    agent.says("The experiment is done.")
    return agent.spent


def looks(begin_s: float, end_s: float) -> Iterator[tuple[float, float]]:
    """When the peer looks at one launch and how long it meant to wait; the last look is at the end itself."""
    at_s, turn = begin_s, 0
    while at_s < end_s:
        wait_s = WAITS_S[min(turn, len(WAITS_S) - 1)]
        at_s, turn = min(at_s + wait_s, end_s), turn + 1
        yield at_s, wait_s


def _look(wait_s: float) -> str:
    wait = f"python ./tmp/wait_tmux.py ajet_math_lr {wait_s:.0f}"
    return f"{wait}; tmux capture-pane -t ajet_math_lr -p | tail -{LOOK_LINES}"


def _preparations() -> list[tuple[str, str]]:
    return [
        ("cat config.yaml", filler(2_000)),
        (f"write ./tmp/wait_tmux.py: {filler(WAIT_SCRIPT_BYTES)}", "done"),
        ("tmux new-session -d -s ajet_math_lr -c /work", ""),
    ]


def _conclusions() -> list[tuple[str, str]]:
    return [
        ("cat saved_val_result/math_lr.md", filler(3_000)),
        (f"write result.md: {filler(REPORT_BYTES)}", "done"),
        ("touch finish.flag; tmux kill-session -t ajet_math_lr", ""),
    ]


def filler(size: int) -> str:
    """A text of so many bytes whose words do not matter."""
    return ("words that only count as many bytes " * (size // 36 + 1))[:size]
