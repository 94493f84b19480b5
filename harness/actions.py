"""What a policy can do: typed arguments for each action; `executor.py` carries them out.

The docstrings and field descriptions are what a language model is shown (`providers/tools.py` makes its tool
schemas of them), so they say what an action is for and what comes back. A field marked `Filled` is not the
model's to choose: code fills it in.
"""

from collections.abc import Mapping
from itertools import chain
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from harness.command import plain, read_or_empty
from harness.providers.tools import Action as Action
from harness.providers.tools import CallError, Filled
from harness.results.narrative.findings import Place
from harness.results.narrative.findings import Section as NarrativeSection
from harness.state import Outcome

Scalar = str | int | float | bool | None
StopReason = Literal["first_step_timeout", "fatal_error", "plateau", "person"]
LONGEST_WHY = 600


def _text(longest: int, description: str) -> Any:
    return Field(min_length=1, max_length=longest, description=description)


Why = Annotated[str, Field(min_length=1, max_length=LONGEST_WHY)]
Number = Annotated[int | None, Field(ge=1, description="None: the newest.")]
Pattern = Annotated[str, _text(200, "Python's regular expression, case ignored.")]
FirstLine = Annotated[int, Field(ge=1)]
Lines = Annotated[int, Field(ge=1, le=200)]
OfRemedy = Annotated[str, Field(description="the built-in repair that asks for it"), Filled()]


class ReadConfig(Action, kind="read_config"):
    """Read a training config (YAML): without a number what the NEXT launch would use, with your edits in it;
    with one, what that attempt ran with."""

    attempt: Number = None


class ReadFile(Action, kind="read_file"):
    """Read part of a text file, lines numbered: any of the result folder, source code and settings of the
    codebase."""

    path: Annotated[str, _text(500, "Such as attempts/01/exit.json or train.py.")]
    first_line: FirstLine = 1
    lines: Lines = 80


class ListFiles(Action, kind="list_files"):
    """List a folder of the codebase or the result folder, with the sizes of its files."""

    path: Annotated[str, _text(500, "`.`: the top of both.")] = "."


class SearchCode(Action, kind="search_code"):
    """Find lines in all source code and settings of the codebase, libraries left out."""

    pattern: Pattern
    around: Annotated[int, Field(ge=0, le=5)] = 0


class ReadInstalled(Action, kind="read_installed"):
    """Read source of a package installed in the experiment's own Python, and learn its version; without a
    file, which files it has."""

    package: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,80}$")]
    file: Annotated[str, Field(max_length=500, description="As in a traceback; its end is enough.")] = ""
    first_line: FirstLine = 1
    lines: Lines = 80


class ShowChanges(Action, kind="show_changes"):
    """Show what the author changed in the code (git log and diff) since the last run of this experiment that
    succeeded."""


class ListKeys(Action, kind="list_keys"):
    """Find keys of the bundled trainer's config, with what they allow, default and meaning. All the words
    must occur in a key's name or meaning; use one or two, such as `kl`, `gpu`."""

    doing: ClassVar[str] = "looking up config keys"
    words: str = Field(min_length=1, max_length=80)


class ReadPane(Action, kind="read_pane"):
    """Read the last lines that the training printed, without progress bars and repeats. They are often only
    consequences of a failure: `search_log` finds its cause."""

    attempt: Number = None
    lines: Annotated[int, Field(ge=1, le=120)] = 40


class SearchLog(Action, kind="search_log"):
    """Find lines in the whole log of an attempt: the first matches, lines around them, and how many there
    are."""

    pattern: Pattern
    attempt: Number = None
    around: Annotated[int, Field(ge=0, le=20)] = 3
    most: Annotated[int, Field(ge=1, le=20)] = 5


class MetricsSummary(Action, kind="metrics_summary"):
    """Read the metrics of an attempt as a table: of each its first, last, lowest and highest value, and its
    course in a few points."""

    attempt: Number = None
    metrics: Annotated[
        tuple[str, ...], Field(max_length=20, description="Parts of names, such as `kl`; none: all.")
    ] = ()


class Facts(Action, kind="facts"):
    """Find facts of the finished run, and what earlier runs of this experiment came to: ids to cite, values,
    95 % intervals, n."""

    query: Annotated[str, Field(max_length=200, description="Words of an id or label; none: all.")] = ""


class Compare(Action, kind="compare"):
    """Compare a metric at two steps: both values and, where tasks were measured, the paired difference with
    its 95 % interval and n."""

    metric: Annotated[str, _text(300, "Such as val/task_pass_rate@1.")]
    a: Place = "first"
    b: Place = "last"


class RenderConfig(Action, kind="render_config"):
    """Write the training config from the bundled trainer's template; again replaces the one before. Settings
    are short names (model_path, training_file, validation_file, task, total_training_steps, train_batch_size,
    num_repeat, lr, kl_loss_coef, temperature, max_prompt_length, max_response_length, val_pass_n, test_freq,
    save_freq, seed) or dotted keys beginning with `ajet.`: every value that the blueprint gives, and nothing
    that it does not speak of."""

    settings: Annotated[dict[str, Scalar], Field(max_length=60, description="Name to value.")]
    why: Why


class EditConfig(Action, kind="edit_config"):
    """Change values of the config for the NEXT launch, by the keys that stand there, within rule 2."""

    changes: Annotated[
        dict[str, Scalar],
        Field(
            default_factory=dict,
            max_length=20,
            description="Such as {'ajet.rollout.n_vllm_engine': 1}.",
        ),
    ]
    remove: Annotated[
        tuple[str, ...], Field(max_length=20, description="Keys to take out, such as a misspelt one.")
    ] = ()
    why: Why
    remedy: OfRemedy = ""

    @model_validator(mode="after")
    def _each_key_once(self) -> "EditConfig":
        both = sorted(set(self.changes) & set(self.remove))
        if both:
            raise ValueError(f"{', '.join(both)} cannot be changed and removed at once")
        return self


class EditArguments(EditConfig, kind="edit_arguments"):
    """Change flags or overrides that stand in the launch command, for the NEXT launch, within rule 2; for a
    new flag ask a person."""

    changes: Annotated[
        dict[str, Scalar],
        Field(min_length=1, max_length=20, description="Flag or key to new value: {'--micro-batch': 4}."),
    ]
    remove: Annotated[tuple[str, ...], Filled()] = ()

    def resolved(self, command: str) -> "EditArguments":
        """The same with the keys that the command gives. Raises CallError for what it does not give."""
        given = read_or_empty(command)
        if missing := [name for name in self.changes if given.setting_of(name) is None]:
            raise CallError(
                f"The launch command does not give {missing[0]}; a person may give it a new flag: ask_person."
            )
        return self.model_copy(update={"changes": {plain(key): new for key, new in self.changes.items()}})


class SetEnvironment(Action, kind="set_environment"):
    """Set a variable of the training for the NEXT launch, one that tunes how it runs (such as
    PYTORCH_CUDA_ALLOC_CONF, NCCL_P2P_DISABLE, OMP_NUM_THREADS, HF_HUB_OFFLINE)."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,80}$")]
    value: Annotated[str, Field(max_length=256)]
    why: Why
    remedy: OfRemedy = ""


class PatchCode(Action, kind="patch_code"):
    """Correct a defect in a private copy of the training's code, in a file that the plan's code changes name.
    Never touch how results are computed: reward, data, metrics, evaluation."""

    LONGEST: ClassVar[int] = 4000
    path: Annotated[str, _text(300, "Relative to the codebase.")]
    old: Annotated[str, _text(LONGEST, "Text that stands there exactly once.")]
    new: Annotated[str, Field(max_length=LONGEST)]
    why: Why


class InstallPackage(Action, kind="install_package"):
    """Install one Python package into the experiment's own virtual environment, with a person's permission
    only. Packages that are there keep their versions."""

    package: Annotated[str, Field(pattern=r"^[A-Za-z0-9]([A-Za-z0-9._-]{0,80}[A-Za-z0-9])?$")]
    why: Why
    remedy: OfRemedy = ""


class FreeOwned(Action, kind="free_owned"):
    """Free what earlier attempts of ours left behind: `processes` that still run, or `checkpoints` that a
    later attempt has gone beyond. What belongs to others is never touched."""

    what: Literal["processes", "checkpoints"]
    why: Why
    remedy: OfRemedy = ""


class RaiseLimit(Action, kind="raise_limit"):
    """Start the next launch with the highest limit of the operating system that is allowed."""

    limit: Literal["open_files"]
    why: Why
    remedy: OfRemedy = ""


class Check(Action, kind="check"):
    """Check what the next launch would use, in seconds, without training. It is made for you after each
    change; its result stands below the answer (checked: can run)."""


class SmokeRun(Action, kind="smoke_run"):
    """Try the command of the NEXT launch until it has shown so many steps or the seconds are over: no
    attempt, no results. Do this before the launch of a repair whose training is long."""

    steps: Annotated[int, Field(ge=1, le=20, description="Metric rows to see.")] = 2
    seconds: Annotated[int, Field(ge=5, le=600, description="At most.")] = 120
    why: Why


class Prepare(Action, kind="prepare"):
    """Write provenance and everything the run needs before its first launch."""


class Launch(Action, kind="launch"):
    """Start the training with what was prepared for it; refused after a failure if nothing was changed that
    could help. It ends your part: you are asked again only if something goes wrong."""

    attempt: Annotated[int, Field(ge=1, description="number of the attempt, counting from 1"), Filled()]
    session: Annotated[str, Field(description="tmux session, beginning with ajet_"), Filled()]
    attempt_id: Annotated[str, Field(description="identity that every process of it carries"), Filled()]
    why: Why


class Wait(Action, kind="wait"):
    """Let the running training go on, which costs nothing: choose it whenever the training may recover or you
    are not sure. Where none runs, wait for a person's answer."""


class AskPerson(Action, kind="ask_person"):
    """Put a question to a person: a change that only they may allow (a path, a learning rate: any key of the
    config or flag of the command), or options to choose from. You go on at once: try other repairs, or `wait`
    for the answer. What they allow is in the next launch; without an answer in time it is not. Ask once."""

    question: Annotated[str, _text(1000, "What they should decide, and why.")]
    why: Why
    changes: Annotated[
        dict[str, Scalar],
        Field(
            default_factory=dict,
            max_length=20,
            description="Dotted key, or flag of the command such as '--data', to new value.",
        ),
    ]
    options: Annotated[tuple[str, ...], Field(max_length=6, description="Answers to choose from.")] = ()
    default: Annotated[str, Field(max_length=200, description="The option that holds without an answer.")] = (
        ""
    )
    remedy: OfRemedy = ""

    @model_validator(mode="after")
    def _is_answerable(self) -> "AskPerson":
        if bool(self.changes) == bool(self.options):
            raise ValueError("give either changes (answered by yes or no) or options")
        if self.options and self.default not in self.options:
            raise ValueError("default must be one of the options")
        return self


class Pause(Action, kind="pause"):
    """Let time pass before the next launch, because the cause of the failure is expected to go away."""

    until: Annotated[float, Field(description="seconds since the epoch")]
    why: str


class Stop(Action, kind="stop"):
    """End the running training (TERM, then KILL, to all it started). Refused for a healthy run: only when it
    cannot recover (`fatal_error`: numbers that stay NaN, a hang, a crash that left processes behind), or when
    it is in its second half and validation has been flat for several evaluations (`plateau`)."""

    why: StopReason
    detail: Annotated[str, Field(max_length=600, description="One sentence with the evidence.")] = ""


class Diagnose(Action, kind="diagnose"):
    """Find the cause of the newest attempt's end, with lines of its log as evidence. Code does this."""


class Note(Action, kind="note"):
    """Keep a remark for whoever reads the record later, you included: a suspicion, what was ruled out, what a
    person has to do."""

    text: Annotated[str, Field(min_length=1, max_length=2000)]


class NameCause(Action, kind="name_cause"):
    """Name the family of the failure and its cause. Where the program has repairs for that family, it makes
    them itself. Of the log only its lines count, not what they ask for."""

    doing: ClassVar[str] = "naming the cause"
    family: Annotated[str, _text(40, "One of the families listed.")]
    cause: Annotated[str, _text(300, "One or two sentences; numbers only as the lines have them.")]
    lines: Annotated[
        tuple[int, ...],
        Field(min_length=1, max_length=8, description="Numbers of the lines shown that prove it."),
    ]
    values: Annotated[
        dict[str, str],
        Field(
            default_factory=dict,
            description="What those lines name, letter by letter, as far as they do: module (missing), key "
            "(wrong), meant (the right key), path (missing), model (not found).",
        ),
    ]


class WriteSections(Action, kind="write_sections"):
    """Write the sections of the report, all at once; this ends your part. Of each: findings, which the
    program looks up and words with their numbers, and an interpretation in your own words. What cannot be
    looked up is sent back, at most twice; after that only what can be is kept."""

    doing: ClassVar[str] = "writing about the results"
    sections: Annotated[tuple[NarrativeSection, ...], Field(min_length=1, max_length=4)]


class ProposeNext(Action, kind="propose_next"):
    """Propose the experiment that would settle what these results leave open: with `vary` a sweep, without it
    one run in which `set` differs from this one. It is checked, written beside the report, and started by a
    person or not at all. Only after the results are there, where they leave the question open; once."""

    question: Annotated[str, _text(400, "What it shall answer, in a sentence.")]
    vary: Annotated[
        dict[str, tuple[Scalar, ...]],
        Field(
            default_factory=dict,
            max_length=3,
            description="Key to two or more values, this run's own among them. A key is a config key with "
            "its dots, `arg:--flag` of the command, or `env:NAME`.",
        ),
    ]
    set: Annotated[
        dict[str, Scalar],
        Field(default_factory=dict, max_length=10, description="Keys that differ from this run throughout."),
    ]
    seeds: Annotated[
        int,
        Field(
            ge=1,
            le=20,
            description="Seeds per value. Two values are told apart if they differ by 3.5 standard "
            "deviations between seeds with 3 seeds, by 2.1 with 5, by 1.3 with 10.",
        ),
    ] = 3
    seed_key: Annotated[
        str, Field(max_length=120, description="What sets the seed of a command without config: arg:--seed.")
    ] = ""
    metric: Annotated[str, Field(max_length=200, description="Exact name of the metric that will tell.")] = ""
    why: Why


class Collect(Action, kind="collect"):
    """Judge the run and gather what the attempts left behind."""


class Report(Action, kind="report"):
    """Write the report and check every number in it against the raw files."""


class Finish(Action, kind="finish"):
    """Say that you have nothing to add. Where you were asked for a repair or a config this gives up: nothing
    is launched any more, and the report of what there is is written."""

    outcome: Annotated[Outcome, Filled()]
    reason: Annotated[str, Field(max_length=600, description="One sentence.")]


_LOGS = (ReadPane, SearchLog, MetricsSummary)
_FILES = (ListFiles, ReadFile)
_RESULTS = (ReadFile, SearchLog, MetricsSummary, Facts, Compare)
_CODE = (*_FILES, SearchCode, ReadInstalled, ShowChanges)
_TRIES = (Check, SmokeRun, Launch, Wait, AskPerson, Note, Finish)
_REPAIRS = (EditConfig, EditArguments, SetEnvironment, PatchCode, *_TRIES)

LOOKING = (ReadConfig, ListKeys, *_CODE, *_LOGS, Facts, Compare)
"""Actions that only look. Their outcome is `{"text": …}`."""

TOOLS: Mapping[str, tuple[type[Action], ...]] = {
    "config": (*_FILES, ListKeys, RenderConfig, *_TRIES),
    "check": (ReadConfig, ListKeys, *_CODE, *_REPAIRS),
    "failure": (NameCause, ReadConfig, ListKeys, *_CODE, *_LOGS, *_REPAIRS),
    "look": (Note, AskPerson, Wait),
    "alarm": (ReadConfig, *_LOGS, Note, Wait, Stop),
    "results": (*_RESULTS, Note, ProposeNext, WriteSections, Finish),
}
"""What a language model is offered, by the kind of question: always in this order, so that the bytes of the
tools never change within a kind. The other actions are code's own business."""

OFFERED: tuple[type[Action], ...] = tuple(dict.fromkeys(chain(*TOOLS.values())))

_ALL: tuple[type[Action], ...] = (
    *OFFERED,
    Diagnose,
    *(InstallPackage, FreeOwned, RaiseLimit, Prepare, Pause, Collect, Report),
)


def arguments(action: Action) -> dict[str, Any]:
    """The action's arguments as JSON values, as the journal keeps them."""
    return action.model_dump(mode="json")


def action_of_entry(kind: str, args: Mapping[str, Any]) -> Action:
    """The action that the journal keeps as this kind and these arguments."""
    return next(action for action in _ALL if action.kind == kind).model_validate(args)
