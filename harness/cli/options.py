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
    str | None, Option("--policy", help="playbook or llm; default: llm when a model is configured.")
]
PassKey = Annotated[
    list[str] | None,
    Option(
        "--pass-key",
        metavar="NAME",
        help="Give the training this variable too, although it holds a key of a language model.",
    ),
]
ModelName = Annotated[
    str | None,
    Option(
        "--model",
        metavar="MODEL",
        help="anthropic:NAME or openai:NAME; with @http://host:port/v1 any server that speaks that protocol.",
    ),
]
MaxCost = Annotated[
    float | None, Option("--max-cost", metavar="USD", help="Most that the model may cost in this run.")
]
MaxCalls = Annotated[
    int | None, Option("--max-llm-calls", min=0, help="Most calls of the model in this run.")
]


Notify = Annotated[
    list[str] | None,
    Option(
        "--notify",
        metavar="URL",
        help="Tell this address (of apprise, such as mailto://… or slack://…) of failures, questions and the "
        "end; may be repeated. `urls` in the [notifications] section of harness.toml does so for every run.",
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
            help="Ask a person before these actions, such as launch,stop; `harness approve` answers.",
        ),
    ] = None
    pass_key: PassKey = None
    keep_session: Annotated[
        bool, Option("--keep-session", help="Leave the tmux session open at the end.")
    ] = False
    allow_install: Annotated[
        bool,
        Option(
            "--allow-install",
            help="A missing Python package may be installed into the experiment's own virtual environment.",
        ),
    ] = False
    allow_code_changes: Annotated[
        bool,
        Option(
            "--allow-code-changes",
            help="A model may correct code that [exp_code_changes] names without asking a person each time.",
        ),
    ] = False

    notify: Notify = None

    def over(self, before: "RunOptions") -> "RunOptions":
        """The options of a run that had `before`, made definite; a clear end for what is wrong."""
        from harness.agent.policies import settled

        if self.policy not in (None, "playbook", "llm"):
            fail(f"--policy {self.policy}: there are `playbook` and `llm`")
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


def seconds_of(max_time: str | None) -> float | None:
    """The time that `--max-time` gives; a clear end for what is no time."""
    from harness.blueprint import durations

    limit = None if max_time is None else durations.single(max_time)
    if max_time is not None and limit is None:
        form = "write one duration, such as '90 min', 12h or '1 hour 30 minutes'"
        fail(f"--max-time {max_time!r}: {form}")
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
