"""The options that `harness run` and `harness resume` share, and what they come to."""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer
from typer import Option

from harness.cli.console import fail

if TYPE_CHECKING:
    from harness.blueprint import Blueprint
    from harness.options import RunOptions

PolicyName = Annotated[
    str | None,
    Option(
        "--policy",
        metavar="POLICY",
        help="Who decides: playbook or llm. Default: llm if a model is configured, else playbook.",
    ),
]
PassKey = Annotated[
    list[str] | None,
    Option(
        "--pass-key",
        metavar="NAME",
        help="Pass this environment variable to the training although it holds a language model's key.",
    ),
]
ModelName = Annotated[
    str | None,
    Option(
        "--model",
        metavar="MODEL",
        help="A language model: anthropic:NAME or openai:NAME, with @http://host:port/v1 for a server of "
        "your own.",
    ),
]
MaxCost = Annotated[
    float | None, Option("--max-cost", metavar="USD", help="Spend at most this much on the language model.")
]
MaxCalls = Annotated[
    int | None,
    Option("--max-llm-calls", metavar="N", min=0, help="Call the language model at most this often."),
]


Notify = Annotated[
    list[str] | None,
    Option(
        "--notify",
        metavar="URL",
        help="Send failures, questions and the result to this apprise URL, such as mailto://… or slack://…; "
        "repeatable. For every run: `urls` under [notifications] in harness.toml.",
    ),
]


@dataclass(frozen=True)
class Given:
    """What the command line says; None or False: nothing."""

    policy: PolicyName = None
    model: ModelName = None
    max_cost: MaxCost = None
    max_llm_calls: MaxCalls = None
    approve: Annotated[
        str | None,
        Option(
            metavar="ACTIONS",
            help="Ask before these actions, such as launch,stop; answer with `harness approve`.",
        ),
    ] = None
    pass_key: PassKey = None
    keep_session: Annotated[
        bool, Option("--keep-session", help="Leave the training's tmux session open at the end.")
    ] = False
    allow_install: Annotated[
        bool,
        Option(
            "--allow-install",
            help="Allow missing Python packages to be installed into the experiment's virtual environment.",
        ),
    ] = False
    allow_code_changes: Annotated[
        bool,
        Option(
            "--allow-code-changes",
            help="Allow a language model to correct the code that [exp_code_changes] names, without asking.",
        ),
    ] = False
    sandbox: Annotated[
        str | None,
        Option(
            metavar="WHEN",
            help="Whether code that a model changed runs in a sandbox: auto (where there is one; the "
            "default), required (else it is not run) or off.",
        ),
    ] = None

    answer_within: Annotated[
        str | None,
        Option(
            "--answer-within",
            metavar="TIME",
            help="How long a question to you waits, such as 2h, before its default holds; default: 12h. "
            "never: ask nobody.",
        ),
    ] = None
    quiet_model: Annotated[
        bool,
        Option(
            "--quiet-model",
            help="Do not ask the language model about a healthy training (three looks, where it takes half "
            "an hour or more).",
        ),
    ] = False

    no_smoke: Annotated[
        bool,
        Option("--no-smoke", help="Do not try a long run for a minute before its first launch."),
    ] = False

    notify: Notify = None

    def over(self, before: "RunOptions") -> "RunOptions":
        """The options of a run that had `before`, made definite; a clear end for what is wrong."""
        from harness.agent.policies import settled

        if self.policy not in (None, "playbook", "llm"):
            fail(f"--policy {self.policy}: there are `playbook` and `llm`")
        if self.sandbox not in (None, "auto", "required", "off"):
            fail(f"--sandbox {self.sandbox}: there are `auto`, `required` and `off`")
        check_cost(self.max_cost)
        if self.policy == "playbook" and self.model is not None:
            fail("--policy playbook asks no model: leave out --model, or choose --policy llm")
        options = before.changed(
            model=self.model,
            max_cost_usd=self.max_cost,
            max_calls=self.max_llm_calls,
            approve=_actions(self.approve) if self.approve is not None else None,
            pass_keys=tuple(self.pass_key) if self.pass_key else None,
            keep_session=self.keep_session or None,
            allow_install=self.allow_install or None,
            allow_code_changes=self.allow_code_changes or None,
            answer_within_s=0.0
            if self.answer_within == "never"
            else seconds_of(self.answer_within, "--answer-within"),
            sandbox=self.sandbox,
            quiet_model=self.quiet_model or None,
            smoke=False if self.no_smoke else None,
        )
        if before.settings_dir is not None and self.policy is None and self.model is None:
            return options  # a run goes on with the policy it has
        definite, warnings = settled(options, self.policy, Path.cwd())
        for warning in warnings:
            typer.echo(f"harness: {warning}", err=True)
        return definite.changed(settings_dir=str(Path.cwd()))


def check_cost(usd: float | None) -> None:
    """A clear end for what is no amount of money."""
    if usd is not None and not usd >= 0:
        fail(f"--max-cost {usd}: give an amount in USD, such as 2.50")


def of_a_run(command: Callable[..., None]) -> Callable[..., None]:
    """The command with the fields of `Given` as options, which it gets together as `given`."""
    hints = get_type_hints(Given, include_extras=True)
    shared = [
        Parameter(option.name, Parameter.KEYWORD_ONLY, default=option.default, annotation=hints[option.name])
        for option in fields(Given)
    ]
    own = [each for each in signature(command).parameters.values() if each.name != "given"]

    @wraps(command)
    def with_options(**arguments: Any) -> None:
        given = Given(**{option.name: arguments.pop(option.name) for option in fields(Given)})
        command(**arguments, given=given)

    vars(with_options)["__signature__"] = Signature([*own, *shared])
    with_options.__annotations__ = {each.name: each.annotation for each in (*own, *shared)}
    return with_options


def seconds_of(max_time: str | None, option: str = "--max-time") -> float | None:
    """The time that an option gives; a clear end for what is no time."""
    from harness.blueprint import durations

    limit = None if max_time is None else durations.single(max_time)
    if max_time is not None and limit is None:
        form = "write one duration, such as '90 min', 12h or '1 hour 30 minutes'"
        fail(f"{option} {max_time!r}: {form}")
    return limit


def within(max_time: str | None, plan: "Blueprint") -> "Blueprint":
    """The plan with at most the time that `--max-time` leaves it."""
    limit = seconds_of(max_time)
    return plan if limit is None else replace(plan, max_time_s=min(limit, plan.max_time_s))


def _actions(words: str) -> tuple[str, ...]:
    from harness.agent.approval import CAN_BE_ASKED

    asked = tuple(word.strip() for word in words.split(",") if word.strip())
    for word in asked:
        if word not in CAN_BE_ASKED:
            fail(f"--approve {word}: you can be asked before {', '.join(CAN_BE_ASKED)}")
    return asked
