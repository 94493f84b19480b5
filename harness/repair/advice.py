"""What a person can do about a failure, with the exact command or edit: one answer for the terminal, the
report, finish.flag and `harness diagnose`.

In: a diagnosis, and the run that it is about, where there is one. Out: the same diagnosis with `what_to_do`,
and with what only the run shows in its cause (`circumstances`).
"""

import shlex
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from harness.attempt import UNKNOWN, Diagnosis, Remedy
from harness.config.packages import known_modules, package_of
from harness.config.reader import UnreadableConfigError, text_of
from harness.environment import MISSING
from harness.redaction import redact
from harness.repair import installing
from harness.repair.remedies import Machine, Situation, code_changes, refused, remedies_for, services
from harness.repair.remedies.choice import WAITING, described, may_not_fit
from harness.wording import did_you_mean

if TYPE_CHECKING:
    from harness.blueprint.types import Blueprint
    from harness.state import ExperimentState
    from monitors.files import AttemptFiles

_INSTALL, _INSTALL_VERSION = "install_package", "install_version"
_MODULES_OF_A_PERSON = (
    "deepspeed flash_attn jax numpy sglang tensorflow torch torchvision transformers trl verl vllm"
)
_BY_A_PERSON = {module: module.replace("_", "-") for module in _MODULES_OF_A_PERSON.split()}
"""Packages that decide what is computed, or must fit a driver: a run installs none of them by itself."""
_SLIP = 0.8


def of_log(found: Diagnosis, config: str | None = None) -> Diagnosis:
    """A log alone, with a config that may be its own."""
    from harness.repair.circumstances import nearest_key

    now = Situation(found, config)
    is_of_keys = found.family in ("config_error", UNKNOWN)
    named = [remedy for _, remedy in nearest_key(now)] if is_of_keys else []
    general = (each for each in _what_to_do(now, None) if not (named and _is_general(each)))
    return replace(found, what_to_do=_masked((*named, *general)))


def of_run(found: Diagnosis, state: "ExperimentState", config: str) -> Diagnosis:
    """The last attempt of a run; `config`: what it read, "" for none that is known."""
    from harness.repair import circumstances, containment

    plan = state.blueprint
    machine = Machine.here(
        owned=lambda what: 0,
        why_not_install=lambda: installing.why_not(plan.venv_exe, state.options.allow_install),
        is_hidden=lambda path: containment.hides(state, Path(path)),
    )
    now = Situation(
        found,
        config,
        state.environment,
        state.command,
        protected=tuple(plan.protected_keys),
        machine=machine,
        python=str(plan.venv_exe),
        config_name=plan.yaml_path.name if plan.yaml_path is not None else "the launch command",
    )
    seen = list(circumstances.of(now, plan))
    said = [sentence for sentence, _ in seen if sentence]
    ended = found.cause if not said or found.cause.endswith((".", "!", "?")) else f"{found.cause}."
    others = [each for each in _what_to_do(now, plan) if not (said and _is_general(each))]
    to_do = _masked((*_missing_secrets(state), *(remedy for _, remedy in seen), *others))
    return replace(found, cause=" ".join([ended, *said]), what_to_do=to_do)


def _is_general(remedy: Remedy) -> bool:
    """True for advice without an exact edit or command."""
    return remedy.kind == "advice" and not remedy.by_hand


def _missing_secrets(state: "ExperimentState") -> Iterator[Remedy]:
    """Of the last attempt: set when the run began, and not in the shell that it was launched from."""
    changes = (each for attempt in state.attempts for each in attempt.draft.changes if each.kind == "secret")
    now = {each.what: each.new for each in changes}
    if names := [name for name, value in now.items() if value == MISSING]:
        change = f"Export {', '.join(names)}, which this attempt was launched without, and run again"
        by_hand = f"harness run {shlex.quote(str(state.blueprint.path))}"
        yield Remedy.advice(change, "The resuming shell did not have it.", by_hand)


def _masked(remedies: Iterable[Remedy]) -> tuple[Remedy, ...]:
    """Without what looks like a secret: a command, or what a log says, may hold one."""
    return tuple(
        replace(each, change=redact(each.change), why=redact(each.why), by_hand=redact(each.by_hand))
        for each in remedies
    )


def _what_to_do(now: Situation, plan: "Blueprint | None") -> Iterator[Remedy]:
    """What a run would do, in its order, then what only a person can do; of a log alone, what may not fit
    comes last. General advice is left out where the exact correction is known."""
    named = list(_named(now, plan))
    exact = [*filter(None, [code_changes.change_of(now)]), *refused.correction(now)]
    advised = exact or [remedy for remedy in named if remedy.kind == "advice"]
    others = [remedy for remedy in named if remedy.kind != "advice"]
    unsure = [] if plan or now.config is not None else [each for each in others if may_not_fit(each)]
    yield from (remedy for remedy in others if remedy not in unsure)
    yield from advised
    yield from unsure
    if now.diagnosis.family == UNKNOWN and not exact:
        yield from _of_unknown(now, plan)


def _named(now: Situation, plan: "Blueprint | None") -> Iterator[Remedy]:
    """The remedies of the diagnosis in their order; what the rules refuse is left out."""
    for name in dict.fromkeys(now.diagnosis.remedies):
        if name == _INSTALL:
            yield from _install(now, plan)
        elif name == _INSTALL_VERSION:
            wanted, remedy = services.requirement(now), described(_INSTALL_VERSION)
            if wanted and remedy is not None:
                yield replace(remedy, by_hand=shlex.join([now.python, "-m", "pip", "install", wanted]))
        else:
            possible = (each for each in remedies_for((name,), now) if not _is_refused(each, now.config))
            yield from (replace(remedy, by_hand=_by_hand(remedy, now, plan)) for remedy in possible)


def _is_refused(remedy: Remedy, config: str | None) -> bool:
    if config is None or not (remedy.edits or remedy.remove or remedy.environment):
        return False
    from harness.guard.science import refuse_repair

    return refuse_repair(remedy, config) is not None


def _by_hand(remedy: Remedy, now: Situation, plan: "Blueprint | None") -> str:
    if remedy.environment:
        return shlex.join(["export", *(f"{name}={value}" for name, value in remedy.environment.items())])
    if remedy.kind == "limit" and now.config is not None:
        return f"ulimit -n {now.machine.open_files()[1]}"
    is_restart = plan is not None and remedy.kind in WAITING
    return f"harness run {shlex.quote(str(plan.path))}" if plan and is_restart else remedy.by_hand


def _install(now: Situation, plan: "Blueprint | None") -> Iterator[Remedy]:
    """By the person or, where they allow it, by the run; and why the run has not done it."""
    module, remedy = now.captured("module").strip("'\"` "), described(_INSTALL)
    name = module or now.captured("package")
    if remedy is None or "." in module or not name:
        return
    if other := _not_missing(name, now, plan):
        yield Remedy.advice(other)
        return
    package = package_of(module) or package_of(now.captured("package"))
    by_person = now.captured("requirement") or package or _BY_A_PERSON.get(name) or now.captured("package")
    by_person = by_person or (name if "[" in name else "")  # with extras: a message says it as pip takes it
    refused = now.machine.why_not_install() if plan is not None else installing.NOT_PERMITTED
    if package is None:
        refused = f"{by_person or module} is not one of the packages that a run may install by itself"
    if by_person:
        change = f"Install {by_person} where the training runs"
    else:
        change = (
            f"If {module} is code of yours, `export PYTHONPATH=` the folder that it stands in; else a person "
            f"must say which package brings it, and install that with `{now.python} -m pip install`"
        )
    if refused == installing.NOT_PERMITTED and package is not None:
        change += ", or start the run with --allow-install"
    why = f"The run has not installed it: {refused}." if plan is not None and refused else remedy.why
    by_hand = shlex.join([now.python, "-m", "pip", "install", by_person]) if by_person else ""
    yield replace(remedy, change=f"{change}.", why=why, by_hand=by_hand)


def _not_missing(module: str, now: Situation, plan: "Blueprint | None") -> str:
    """What to do about a module that is there, or is spelt wrong; "" for one that is missing."""
    if plan is not None:
        home = plan.venv_exe.parent.parent
        if any(home.glob(f"lib/python*/site-packages/{module}")):
            return f"{module} is installed in {home}, but another Python ran: launch with {plan.venv_exe}."
        own = sorted([*plan.codebase_dir.glob(f"*/{module}.py"), *plan.codebase_dir.glob(f"*/{module}/")])
        if own:
            return f"{module} is {own[0]}: run `export PYTHONPATH={own[0].parent}` before the launch."
    known = {*known_modules(), *_BY_A_PERSON}
    near = did_you_mean(module, known, "{}", _SLIP) if module not in known else ""
    near = near if abs(len(near) - len(module)) <= 1 else ""  # geopandas is no slip for pandas
    return f"Write `import {near}` instead of `import {module}` {now.values['at']}." if near else ""


def _of_unknown(now: Situation, plan: "Blueprint | None") -> Iterator[Remedy]:
    """Where to look when no signature knows the failure."""
    place = now.captured("place")
    if place and (remedy := described("correct_code")) is not None:
        yield replace(remedy, change=remedy.change.format(place=place))
    elif plan is not None and now.command and (remedy := described("run_by_hand")) is not None:
        yield replace(remedy, by_hand=f"cd {shlex.quote(str(plan.codebase_dir))} && {now.command}")


def config_of(files: "AttemptFiles") -> str:
    """The config of an attempt, "" where it has none that can be read."""
    try:
        return text_of(files.config)
    except (OSError, UnreadableConfigError):
        return ""
