"""What a run shows of its failure beside the log: who holds the port, which limit is set, what names a path.

In: the failure in its situation, and the plan. Out: sentences that follow the cause, and what a person can do
about just that. Looked up when the failure is diagnosed; nothing is changed.
"""

import re
import resource
from collections.abc import Callable, Iterator, Mapping

from harness.attempt import UNKNOWN, Remedy
from harness.blueprint.types import Blueprint
from harness.command import calls
from harness.machine.disk import in_words
from harness.machine.memory import memory_available, memory_limit
from harness.machine.ports import holder
from harness.repair.remedies import refused
from harness.repair.remedies.situation import Situation
from harness.wording import did_you_mean

_LEARNING_RATE = re.compile(r"(?:.*[._])?(?:lr|learning_rate)")
_TEXT_FOR_A_NUMBER = re.compile(r"UFunc|<U\d|\bstr\b|could not convert string|must be real number")
_MEMORY_LIMITS = {"-v": resource.RLIMIT_AS, "-d": resource.RLIMIT_DATA}
_MISSING_KEY = re.compile(r"KeyError: '([\w.-]{2,80})'|has no attribute '(\w{2,80})'")
_KIB = 1024


Seen = Iterator[tuple[str, Remedy]]
"""A sentence for the cause, "" for none, and what to do about it."""


def of(now: Situation, plan: Blueprint) -> Seen:
    """What this run shows; nothing for most failures."""
    if not plan.codebase_dir.is_dir():
        gone = f"The codebase {plan.codebase_dir} is not there any more."
        yield gone, Remedy.advice(f"Put {plan.codebase_dir} back in its place.")
        return
    if (look := _OF_FAMILY.get(now.diagnosis.family)) is not None:
        yield from look(now, plan)
    yield from _numbers_as_text(now, plan)


def _ports(now: Situation, plan: Blueprint) -> Seen:
    """The port that the log names, else those of config, command and variables; who holds it."""
    named = {each.key: each.whole for each in now.settings.of("port")}
    ports = {name: value for name, value in now.environment.items() if name.endswith("PORT")}
    named |= {name: int(value) for name, value in ports.items() if value.isdigit()}
    logged = now.count("port")
    for port in (logged,) if logged else dict.fromkeys(filter(None, named.values())):
        if not now.machine.is_taken(port):
            continue
        keys = [key for key, value in named.items() if value == port]
        by = holder(port)
        where = f" ({', '.join(keys)})" if keys else ""
        free = now.machine.free_port()
        edit = now.written(keys[0], str(free)) if keys else ""
        text = f"Choose another port{' in ' + now.where(keys[0]) if keys else f', such as {free}'}"
        pid = re.search(r"\(pid (\d+)", by)
        ending = f"or end what holds it, if it is yours (`kill {pid[1]}`)" if pid else ""
        change = ", ".join(filter(None, (text, ending)))
        yield f"Port {port}{where} is taken{by}.", Remedy.advice(f"{change}.", by_hand=edit)


def _memory_limits(now: Situation, plan: Blueprint) -> Seen:
    """A limit of the command, of this shell or of a control group; else that there must be one, where the
    machine has memory left."""
    for text, how in _limits(now, plan):
        yield f"{text}.", Remedy.advice(f"{how}, or let less lie in memory at once.")
        return
    asked = now.size("tried")
    left = memory_available()
    if asked is not None and asked * 2**30 < left / 4:
        text = f"The machine has {in_words(left)} left now, far more than that request: look for a limit"
        yield (
            f"{text} (`ulimit -v`, a container).",
            Remedy.advice(
                "Look for a limit that the training runs under, and raise it.", by_hand="ulimit -a"
            ),
        )


def _limits(now: Situation, plan: Blueprint) -> Iterator[tuple[str, str]]:
    for call in calls(now.command, plan.codebase_dir, now.environment):
        flag = next((word for word in call.words[1:-1] if word[:2] in ("-v", "-d", "-m")), "")
        if call.program == "ulimit" and flag and call.words[-1].isdigit():
            size = in_words(int(call.words[-1]) * _KIB)
            command = " ".join(call.words)
            yield f"The command limits its memory itself: `{command}` ({size})", f"Raise `{command}`"
    for flag, limit in _MEMORY_LIMITS.items():
        soft, _ = resource.getrlimit(limit)
        if soft != resource.RLIM_INFINITY:
            yield f"This shell limits memory: `ulimit {flag}` is {in_words(soft)}", f"Raise `ulimit {flag}`"
    if (most := memory_limit()) is not None:
        yield f"The container or control group allows {in_words(most)} of memory", "Raise that limit"


def _hidden_path(now: Situation, plan: Blueprint) -> Seen:
    """The sandbox that code runs in which a model changed may not show what is there."""
    path = now.captured("path").rstrip("/.")
    if path.startswith("/") and now.machine.is_hidden(path):
        change = (
            f"Write `readable: {path}` (`writable:`, if it is written) under [exp_code_changes] of "
            f"{plan.path.name}, and run it again."
        )
        yield f"{path} is there, but the sandbox of changed code does not show it.", Remedy.advice(change)


def _named_path(now: Situation, plan: Blueprint) -> Seen:
    """The setting that names the missing path, and the name beside it that is most like it."""
    from harness.doctor.settings import similar

    yield from _hidden_path(now, plan)
    path = now.captured("path").rstrip("/.")
    values = now.settings.values.items()
    key = next((key for key, value in values if path and _means(value, path)), "")
    if not key:
        return
    meant = similar(path, plan.codebase_dir)
    hint = f" (did you mean {meant}?)" if meant else ""
    yield (
        f"It is named by {key} in {now.where(key)}, and looked for in {plan.codebase_dir}.",
        Remedy.advice(
            f"Correct {key} in {now.where(key)}{hint}, or put the file there.",
            by_hand=now.written(key, meant) if meant else "",
        ),
    )


def _means(value: object, path: str) -> bool:
    if not isinstance(value, str) or len(value) < 3:
        return False
    return path == value or path.endswith(f"/{value.lstrip('./')}")


def _learning_rate(now: Situation, plan: Blueprint) -> Seen:
    """A change of what is studied, which only a person may make."""
    rates = ((key, value) for key, value in now.settings.values.items() if _LEARNING_RATE.fullmatch(key))
    key, value = next(rates, ("", None))
    if isinstance(value, int | float) and not isinstance(value, bool):
        where = f"{key} is {value:g} in {now.where(key)}"
        change = f"Lower the learning rate ({where}), or clip the gradients."
        why = "It is part of what is studied, so a run does not change it by itself."
        yield "", Remedy.advice(change, why, by_hand=now.written(key, f"{value / 10:g}"))


def _numbers_as_text(now: Situation, plan: Blueprint) -> Seen:
    """Numbers of the config that PyYAML reads as text, where the program failed of a text."""
    if not _TEXT_FOR_A_NUMBER.search(now.said):
        return
    from harness.doctor.configs import numbers_as_text  # what a log alone does not need is heavy

    started = calls(now.command, plan.codebase_dir, now.environment)
    for file, key, there, number in numbers_as_text(started, plan.yaml_path, now.config):
        yield (
            f"In {file} stands `{key}: {there}`, which PyYAML reads as text.",
            Remedy.advice(f"Write it in {file} as a number.", by_hand=f"{key}: {number}"),
        )


def nearest_key(now: Situation, plan: Blueprint | None = None) -> Seen:
    """The key of the config that is nearest to one that the program did not find; not where a value is to be
    corrected."""
    if any(each.by_hand for each in refused.correction(now)):
        return
    missing = _MISSING_KEY.search(now.said)
    named = now.captured("key") or now.captured("wanted") or (missing and (missing[1] or missing[2])) or ""
    name, known = named.rpartition(".")[2], [each for each in now.settings.values if each != named]
    in_config = {each.rpartition(".")[2]: each for each in known}
    if not name or name in in_config:
        return
    meant = in_config.get(did_you_mean(name, in_config, "{}", 0.6))
    if meant is not None:
        file = now.where(meant)
        change = f"Use one name for it: the program asks for {named}, and {file} says {meant}."
        yield f"In {file} it is {meant}, not {named}.", Remedy.advice(change)


_OF_FAMILY: Mapping[str, Callable[[Situation, Blueprint], Seen]] = {
    "port_in_use": _ports,
    "host_oom": _memory_limits,
    "path_not_found": _named_path,
    "dataset_error": _named_path,
    "permission": _hidden_path,
    "numerics_nan": _learning_rate,
    "config_error": nearest_key,
    "code_error": nearest_key,
    UNKNOWN: nearest_key,
}
