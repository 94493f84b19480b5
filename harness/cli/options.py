"""The options that `harness run` and `harness resume` share, and what they come to."""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from harness.cli.console import fail

if TYPE_CHECKING:
    from harness.blueprint import Blueprint
    from harness.options import RunOptions

PolicyName = Annotated[
    str | None, typer.Option("--policy", help="playbook or llm; default: llm when a model is configured.")
]
ModelName = Annotated[
    str | None,
    typer.Option(
        "--model",
        metavar="MODEL",
        help="anthropic:NAME or openai:NAME; with @http://host:port/v1 any server that speaks that protocol.",
    ),
]
MaxCost = Annotated[
    float | None, typer.Option("--max-cost", metavar="USD", help="Most that the model may cost in this run.")
]
MaxCalls = Annotated[
    int | None, typer.Option("--max-llm-calls", min=0, help="Most calls of the model in this run.")
]
Approve = Annotated[
    str | None,
    typer.Option(
        "--approve",
        metavar="ACTIONS",
        help="Ask a person before these actions, such as launch,stop; `harness approve` answers.",
    ),
]
PassKey = Annotated[
    list[str] | None,
    typer.Option(
        "--pass-key",
        metavar="NAME",
        help="Give the training this variable too, although it holds a key of a language model.",
    ),
]
AllowInstall = Annotated[
    bool,
    typer.Option(
        "--allow-install",
        help="A missing Python package may be installed into the experiment's own virtual environment.",
    ),
]
AllowCodeChanges = Annotated[
    bool,
    typer.Option(
        "--allow-code-changes",
        help="A model may correct code that [exp_code_changes] names without asking a person each time.",
    ),
]
KeepSession = Annotated[bool, typer.Option("--keep-session", help="Leave the tmux session open at the end.")]


@dataclass(frozen=True)
class Given:
    """What the command line says; None or False: nothing."""

    policy: PolicyName = None
    model: ModelName = None
    max_cost: MaxCost = None
    max_llm_calls: MaxCalls = None
    approve: Approve = None
    pass_key: PassKey = None
    keep_session: KeepSession = False
    allow_install: AllowInstall = False
    allow_code_changes: AllowCodeChanges = False

    def over(self, before: "RunOptions") -> "RunOptions":
        """The options of a run that had `before`, made definite; a clear end for what is wrong."""
        from harness.agent.policies import settled

        self._check()
        options = self._changed(before)
        if before.settings_dir is not None and self.policy is None and self.model is None:
            return options  # a run goes on with the policy it has
        definite, warnings = settled(options, self.policy, Path.cwd())
        for warning in warnings:
            typer.echo(f"harness: {warning}", err=True)
        return definite.changed(settings_dir=str(Path.cwd()))

    def _changed(self, before: "RunOptions") -> "RunOptions":
        return before.changed(
            model=self.model,
            max_cost_usd=self.max_cost,
            max_calls=self.max_llm_calls,
            approve=_actions(self.approve) if self.approve is not None else None,
            pass_keys=tuple(self.pass_key) if self.pass_key else None,
            keep_session=self.keep_session or None,
            allow_install=self.allow_install or None,
            allow_code_changes=self.allow_code_changes or None,
        )

    def _check(self) -> None:
        if self.policy not in (None, "playbook", "llm"):
            fail(f"--policy {self.policy}: there are `playbook` and `llm`")
        if self.max_cost is not None and not self.max_cost >= 0:
            fail(f"--max-cost {self.max_cost}: give an amount in USD, such as 2.50")
        if self.policy == "playbook" and self.model is not None:
            fail("--policy playbook asks no model: leave out --model, or choose --policy llm")


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


def within(max_time: str | None, plan: "Blueprint") -> "Blueprint":
    """The plan with at most the time that `--max-time` leaves it; a clear end for what is no time."""
    from harness.blueprint import durations

    if max_time is None:
        return plan
    limit = durations.single(max_time)
    if limit is None:
        form = "write one length of time, such as '90 min', 12h or '1 hour 30 minutes'"
        fail(f"--max-time {max_time!r}: {form}")
    return replace(plan, max_time_s=min(limit, plan.max_time_s))


def _actions(words: str) -> tuple[str, ...]:
    from harness.agent.approval import CAN_BE_ASKED

    asked = tuple(word.strip() for word in words.split(",") if word.strip())
    for word in asked:
        if word not in CAN_BE_ASKED:
            fail(f"--approve {word}: you can be asked before {', '.join(CAN_BE_ASKED)}")
    return asked
