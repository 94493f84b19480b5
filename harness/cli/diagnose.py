"""`harness diagnose`: the cause of a failure from any training's log, with evidence and what would help."""

from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from harness import index
from harness.attempt import NOTHING_FAILED, UNKNOWN
from harness.cli.console import AsJson, console, fail, piped_log, print_json
from harness.outcome import Outcome
from monitors.files import AttemptFiles

if TYPE_CHECKING:
    from harness.attempt import AttemptEnd
    from harness.diagnosis import Diagnosis
    from harness.redaction import Secrets

_OF_THE_END = ("reason", "status", "signal", "prepare_status")
_ON_PURPOSE = (Outcome.STOPPED_EARLY, Outcome.CANCELLED)
OTHER_FILES = ("metrics.jsonl", "resources.jsonl")
SAMPLE_BYTES, MOST_CONTROLS = 64 << 10, 0.03
_CONTROLS = bytes({*range(32), 127} - set(b"\t\n\r\b\f\a\x1b"))


def diagnose(
    log: Annotated[
        Path | None,
        typer.Argument(
            metavar="LOG",
            help="A log file, - for standard input, or the folder of an attempt or a run; default: the "
            "newest run.",
        ),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option("--config", metavar="FILE", help="The training's config: name the exact edits."),
    ] = None,
    status: Annotated[
        int | None,
        typer.Option(
            "--status",
            metavar="N",
            help="Exit status of the training's command, such as 137; -9 for signal 9.",
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            metavar="MODEL",
            help="Ask this language model, once, where the cause is unknown, known by its kind, or not sure: "
            "anthropic:NAME or openai:NAME, with @http://host:port/v1 for a server of your own; default: "
            "that of harness.toml.",
        ),
    ] = None,
    propose: Annotated[
        bool, typer.Option("--propose", help="Write a signature for this failure, to be completed by you.")
    ] = False,
    json_output: AsJson = False,
    list_families: Annotated[
        bool, typer.Option("--families", help="List the known families of failures.")
    ] = False,
) -> None:
    """Find the cause of a failure in the log of any training.

    Says what would help; changes nothing.

    Exit status: 0 a cause was found or nothing failed, 1 it is unknown, 2 the log cannot be read.
    """
    from harness.diagnosis.signatures import families
    from harness.environment import known_secrets
    from harness.results.text import clean_tree

    if list_families:
        for name, meaning in families().items():
            typer.echo(f"{name}: {meaning}")
        return
    around = [] if log is None or not log.exists() else [log, *log.resolve().parents[:3]]
    secrets = known_secrets(*around)
    found = _diagnosis(log, config, status, lambda found: _named(found, model, secrets))
    found = clean_tree(found, secrets)
    if json_output:
        print_json(as_json(found))
    else:
        _print(found)
    if propose:
        _propose(found, log)
    raise typer.Exit(0 if found.family != UNKNOWN else 1)


def _named(found: "Diagnosis", model: str | None, secrets: "Secrets") -> "Diagnosis":
    """The diagnosis with the cause that a model names, where one is asked and the cause is open."""
    if model is None or not found.is_open:
        return found
    from harness.cli import cause

    return cause.named(found, model, secrets)


def as_json(found: "Diagnosis") -> dict[str, Any]:
    """What `--json` prints. The `file` of a line is named where it is not the log."""
    return {
        "family": found.family,
        "signature": found.signature,
        "cause": found.cause,
        **({"by": found.by} if found.by else {}),
        "evidence": [
            {"line": each.line, "text": each.text} | ({"file": each.file} if each.file in OTHER_FILES else {})
            for each in found.evidence
        ],
        "transient": found.transient,
        "confidence": found.confidence,
        "only_nominated": found.only_nominated,
        "remedies": [
            {"kind": each.kind, "change": each.change, "why": each.why}
            | ({"by_hand": each.by_hand} if each.by_hand else {})
            for each in found.what_to_do
        ],
        "also": [asdict(each) for each in found.also],
    }


def _propose(found: "Diagnosis", log: Path | None) -> None:
    """Write a signature for a person to complete, and say how it is used."""
    from harness.lessons import proposals

    file = proposals.propose(found, (), f"{log or 'the newest run'}, by harness diagnose")
    if file is None:
        fail("this failure was proposed already, or its log says too little to know it again by")
    family = "" if found.family != "unknown" else " --family …"
    typer.echo(
        f"proposed: {file}\ntry it with `harness signatures test {file}`, "
        f"accept it with `harness lessons accept {file.stem}{family}`",
        err=True,
    )


def _diagnosis(
    log: Path | None, config: Path | None, status: int | None, named: "Callable[[Diagnosis], Diagnosis]"
) -> "Diagnosis":
    """What the target tells, and what to do about it. `named`: by a model, where it is asked."""
    from harness.diagnosis import diagnose
    from harness.repair import advice

    if log == Path("-"):
        with piped_log() as piped:
            found = _of_log(piped, status, "standard input")
        return advice.of_log(named(found), _text(config))
    if log is not None and log.exists() and not log.is_dir():
        return advice.of_log(named(_of_log(log, status, str(log))), _text(config))
    if log is not None and (log / "pane.log").exists():
        files = AttemptFiles(log)
        ended = _end_of(files)
        own = files.config if files.config.is_file() else None
        return advice.of_log(named(diagnose(files, ended)), _text(config or own))
    return _of_run(log, config, named)


def _of_run(word: Path | None, config: Path | None, named: "Callable[[Diagnosis], Diagnosis]") -> "Diagnosis":
    from harness.diagnosis import Diagnosis, diagnose
    from harness.environment import known_secrets
    from harness.repair import advice
    from harness.results.text import clean_tree

    try:
        folder = index.find_run(None if word is None else str(word))
    except index.UnknownRunError as error:
        fail(f"{word}: there is no such log; {error}" if word is not None else str(error))
    state = index.load_state(folder)
    attempt = state.attempt
    if attempt is None or attempt.ended is None:
        what = "is still running" if attempt is not None else "has launched nothing"
        fail(f"{folder} {what}; to look at a log as it is, name the file")
    on_purpose = state.verdict is not None and state.verdict.outcome in _ON_PURPOSE
    if attempt.ended.complete or on_purpose:
        how = state.verdict.outcome.value.replace("_", " ") if state.verdict else "succeeded"
        told = state.verdict.reason if state.verdict else f"attempt {attempt.number} ran to its end"
        return Diagnosis(NOTHING_FAILED, None, f"{state.name} {how}: {told}.", confidence=1.0)
    files = AttemptFiles(folder / "attempts" / f"{attempt.number:02d}")
    found = diagnose(files, attempt.ended, attempt.stop_reason, attempt.stop_detail)
    before = attempt.diagnosis
    if found.is_open and before is not None and before.by:  # a model has named it in the run
        found = replace(before, what_to_do=(), repairs=())
    found = named(clean_tree(found, known_secrets(folder))) if not found.by else found
    found = advice.of_run(found, state, _text(config) or advice.config_of(files))
    return clean_tree(found, known_secrets(folder))


def _end_of(files: "AttemptFiles") -> "AttemptEnd | None":
    from harness.attempt import AttemptEnd

    record = files.exit()
    return None if record is None else AttemptEnd(**{name: getattr(record, name) for name in _OF_THE_END})


def _text(config: Path | None) -> str | None:
    from harness.config import edit as config_edit
    from harness.config.reader import UnreadableConfigError, text_of

    if config is None:
        return None
    try:
        text = text_of(config)
        config_edit.load(text)
    except UnreadableConfigError as error:
        fail(f"{config} is {error}")
    return text


def _of_log(log: Path, status: int | None, name: str) -> "Diagnosis":
    from harness.diagnosis import diagnose_log

    with log.open("rb") as file:
        beginning = file.read(SAMPLE_BYTES)
    if is_binary(beginning):
        fail(f"{name} is a binary file, not a log")
    return diagnose_log(log, status)


def is_binary(beginning: bytes) -> bool:
    """True if this is no text in any encoding: a few per cent of control characters. Blocks of NUL, as a log
    has after a crash, do not count."""
    text = beginning.replace(b"\0", b"")
    controls = len(text) - len(text.translate(None, _CONTROLS))
    return controls > MOST_CONTROLS * len(text)


def _print(found: "Diagnosis") -> None:
    from rich.text import Text

    shown, out = as_json(found), console()

    def section(title: str, content: object) -> None:
        if content:
            out.print(Text(f"\n{title}", style="bold"))

    def others(title: str) -> None:
        section(title, shown["also"])
        for other in shown["also"]:
            out.print(Text(f"line {other['line']}: {other['cause']} [{other['family']}]"))

    if found.family == NOTHING_FAILED:
        out.print(Text(shown["cause"]))
        others("Got over")
        return
    is_known = found.family != UNKNOWN
    signature = f" ({found.signature})" if found.signature else ""
    sure = f"probably ({found.confidence:.0%})" if found.only_nominated else f"{found.confidence:.0%} sure"
    sure = f", by {found.by}" if found.by else f", {sure}" if is_known else ""
    out.print(Text(f"{found.family}{signature}{sure}", style="bold"))
    out.print(Text(shown["cause"]))
    if found.transient:
        out.print(Text("Starting again without a change may help."))
    section("Evidence" if is_known else "The lines most likely to help", shown["evidence"])
    for line in shown["evidence"]:
        where = f"{line['file']}:{line['line']}" if "file" in line else str(line["line"])
        out.print(Text.assemble((f"{where:>7}  ", "dim"), line["text"]))
    section("What would help, in this order", found.what_to_do)
    for number, each in enumerate(found.what_to_do, start=1):
        out.print(Text(f"{number}. {each.sentence}"))
        if each.why:
            out.print(Text(f"   {each.why}", style="dim"))
    others("Also in the log")
