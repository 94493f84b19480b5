"""What a person chose for one run: who decides, what it may cost, what they want to be asked about.

Kept in the journal as an entry `options`, so that `harness resume` goes on as the run was started.
"""

from dataclasses import dataclass, replace
from typing import Any

ANSWER_WITHIN_S = 12 * 3600.0
LLM_KEYS = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "OPENAI_API_KEY")


@dataclass(frozen=True)
class RunOptions:
    """`policy`: "playbook" or "llm". `model`: as in `anthropic:NAME@URL`, None for the playbook.

    `max_cost_usd`, `max_calls`: hard limits of the language model, None for the default. `approve`: kinds of
    actions that wait for a person's yes. `keep_session`: leave the tmux session open at the end.
    `key_variable`: the variable with the model's key, which the training is not given; `pass_keys`: variables
    that it is given although they hold such keys. `allow_install`: a missing package may be installed into
    the experiment's own virtual environment; `allow_code_changes`: code that [exp_code_changes] names may be
    corrected without a person's yes. `answer_within_s`: how long a question to a person waits, None for
    ANSWER_WITHIN_S, 0 where nobody is to be asked. `words`: a model is asked for words about the results; of
    the runs of a sweep, none is. `quiet_model`: the model is not asked about a healthy training.
    `settings_dir`: where the run was started, and its harness.toml is looked for. `sandbox`: whether code
    that a model changed runs in one: auto (where there is one), required or off. `smoke`: the first launch of
    a long run is tried for a moment before it; of the runs of a sweep, none is.
    """

    policy: str = "playbook"
    model: str | None = None
    max_cost_usd: float | None = None
    max_calls: int | None = None
    approve: tuple[str, ...] = ()
    keep_session: bool = False
    key_variable: str | None = None
    pass_keys: tuple[str, ...] = ()
    allow_install: bool = False
    allow_code_changes: bool = False
    answer_within_s: float | None = None
    words: bool = True
    quiet_model: bool = False
    settings_dir: str | None = None
    sandbox: str = "auto"
    smoke: bool = True

    @property
    def patience_s(self) -> float:
        """How long a question waits for an answer."""
        return ANSWER_WITHIN_S if self.answer_within_s is None else self.answer_within_s

    @property
    def hidden(self) -> frozenset[str]:
        """Variables that no training sees."""
        own = {self.key_variable} if self.key_variable else set()
        return frozenset({*LLM_KEYS, *own} - set(self.pass_keys))

    @property
    def looks(self) -> bool:
        """True if a model looks at a healthy training."""
        return self.policy == "llm" and not self.quiet_model

    def changed(self, **given: Any) -> "RunOptions":
        """These options with what was given anew; None means not given."""
        return replace(self, **{name: value for name, value in given.items() if value is not None})
