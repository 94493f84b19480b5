"""What a policy can do: typed arguments for each action; `executor.py` carries them out.

The docstrings and field descriptions are what a language model is shown (`providers/tools.py` makes its tool
schemas of them), so they say what an action is for and what comes back. A field marked `Filled` is not the
model's to choose: code fills it in.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from harness.providers.tools import Action as Action
from harness.providers.tools import Filled
from harness.results.narrative.findings import Section as NarrativeSection
from harness.state import Outcome

Scalar = str | int | float | bool | None
StopReason = Literal["first_step_timeout", "fatal_error", "plateau", "person"]
LONGEST_WHY = 600


def _text(longest: int, description: str) -> Any:
    return Field(min_length=1, max_length=longest, description=description)


Why = Annotated[str, _text(LONGEST_WHY, "One sentence for the record: why this, why now.")]
Number = Annotated[int | None, Field(ge=1, description="Number of the attempt; leave out for the newest.")]
OfRemedy = Annotated[str, Field(description="the built-in repair that asks for it"), Filled()]


class ReadBlueprint(Action, kind="read_blueprint"):
    """Read the plan of this experiment as its author wrote it. It is in your first message already; use
    this only when that was shortened."""


class ReadConfig(Action, kind="read_config"):
    """Read a training config (YAML). Without a number you get the config that the NEXT launch would use, with
    your edits in it; with a number the one which that attempt ran with."""

    attempt: Number = None


class ReadFile(Action, kind="read_file"):
    """Read part of a text file of this experiment: in its result folder, or source code and settings in its
    codebase. Lines come numbered, at most 200 at a time; secrets are masked. Other files are refused."""

    path: Annotated[
        str, _text(500, "In the result folder (attempts/01/exit.json) or the codebase (train.py).")
    ]
    first_line: Annotated[int, Field(ge=1, description="First line, counting from 1.")] = 1
    lines: Annotated[int, Field(ge=1, le=200, description="How many lines.")] = 80


class ReadPane(Action, kind="read_pane"):
    """Read the last lines that the training printed: its terminal, progress bars and repeats left out. For
    the cause of a failure use `search_log`: the last lines are often only consequences."""

    attempt: Number = None
    lines: Annotated[int, Field(ge=1, le=120, description="How many lines.")] = 40


class SearchLog(Action, kind="search_log"):
    """Find lines in the whole log of an attempt by a regular expression (Python's, case ignored). You get the
    first matches with their line numbers and the lines around them, and how many there are in all."""

    pattern: Annotated[str, _text(200, "Such as `error|killed|out of memory`.")]
    attempt: Number = None
    around: Annotated[int, Field(ge=0, le=20, description="Lines shown before and after each match.")] = 3
    most: Annotated[int, Field(ge=1, le=20, description="Most matches shown.")] = 5


class MetricsSummary(Action, kind="metrics_summary"):
    """Read the metrics of an attempt as a small table: for each metric its first, last, lowest and highest
    value, and its course in a few points. This is the way to see how a training went; never read raw metric
    files for it."""

    attempt: Number = None
    metrics: Annotated[
        tuple[str, ...],
        Field(max_length=20, description="Parts of names, such as `reward`, `kl`; leave out for all."),
    ] = ()


class RenderConfig(Action, kind="render_config"):
    """Write the training config from the bundled trainer's template, because the blueprint names none. Only
    before the first launch. Settings are short names (model_path, training_file, validation_file, task,
    total_training_steps, train_batch_size, num_repeat, lr, kl_loss_coef, temperature, max_prompt_length,
    max_response_length, val_pass_n, test_freq, save_freq, seed) or dotted keys beginning with `ajet.`. Take
    every value that the blueprint gives; leave out what it does not speak of. Use `check` afterwards."""

    settings: Annotated[dict[str, Scalar], Field(max_length=60, description="Name to value.")]
    why: Why


class EditConfig(Action, kind="edit_config"):
    """Change single values of the config for the NEXT launch. A repair may change how the training runs
    (memory, parallelism, offloading, ports, time-outs), never what is studied:
    model, data, algorithm, learning rate, batch, lengths, LoRA, seed and protected keys are refused. Read the
    config first and use the keys that are there. Use `check` afterwards."""

    changes: Annotated[
        dict[str, Scalar],
        Field(
            default_factory=dict,
            max_length=20,
            description="Dotted key to new value, such as {'ajet.rollout.n_vllm_engine': 1}.",
        ),
    ]
    remove: Annotated[
        tuple[str, ...], Field(max_length=20, description="Dotted keys to take out, such as a misspelt one.")
    ] = ()
    why: Why
    remedy: OfRemedy = ""

    @model_validator(mode="after")
    def _each_key_once(self) -> "EditConfig":
        both = sorted(set(self.changes) & set(self.remove))
        if both:
            raise ValueError(f"{', '.join(both)} cannot be changed and removed at once")
        return self


class SetEnvironment(Action, kind="set_environment"):
    """Set one environment variable of the training for the NEXT launch. Only variables that tune how it runs
    are allowed (such as PYTORCH_CUDA_ALLOC_CONF, NCCL_P2P_DISABLE, OMP_NUM_THREADS, HF_HUB_OFFLINE)."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,80}$")]
    value: Annotated[str, Field(max_length=256)]
    why: Why
    remedy: OfRemedy = ""


class PatchCode(Action, kind="patch_code"):
    """Correct a defect in the training's code, in a private copy of it; the author's files stay as they are.
    Only if the blueprint's [exp_code_changes] allows that file. Give text that stands in the file exactly
    once and what replaces it. Never touch how results are computed: reward, data, metrics, evaluation."""

    path: Annotated[str, _text(300, "Relative to the codebase.")]
    old: Annotated[str, _text(4000, "Text that stands there once.")]
    new: Annotated[str, Field(max_length=4000, description="The text that replaces it.")]
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
    """Check what the next launch would use, in seconds and without training: disk, tmux, folders, and the
    trainer's own dry run of the config with your edits. Do this before every launch that follows an edit."""


class Prepare(Action, kind="prepare"):
    """Write provenance and everything the run needs before its first launch."""


class Launch(Action, kind="launch"):
    """Start the training in its own tmux session with the config, variables and patches prepared for it.
    After a failure this is refused unless something was changed that could help, or the cause is known to
    pass. It returns at once; waiting is done for you, and you are asked again only if something goes wrong.
    """

    attempt: Annotated[int, Field(ge=1, description="number of the attempt, counting from 1"), Filled()]
    session: Annotated[str, Field(description="tmux session, beginning with ajet_"), Filled()]
    attempt_id: Annotated[str, Field(description="identity that every process of it carries"), Filled()]
    why: Why


class Wait(Action, kind="wait"):
    """Let the running training go on, and wait until something happens: its end, an error, a deadline, or the
    next routine look. You get what happened, not a log. This costs nothing: choose it whenever the training
    may recover or you are not sure."""


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
    """Find the cause of the newest attempt's end, with lines of its log as evidence. This has been done
    already when you are asked about a failure."""


class Note(Action, kind="note"):
    """Keep one remark in the record of this experiment, for whoever reads it later, you included: a finding,
    a suspicion, what was ruled out. It changes nothing."""

    text: Annotated[str, Field(min_length=1, max_length=2000)]


class WriteReportSection(NarrativeSection, Action, kind="write_report_section"):
    """Write one section of the report: findings, small objects whose numbers, direction and sentence the
    program fills in, and an interpretation in your own words. Both name facts by the ids you were given; an
    unknown id is refused with the nearest one. The interpretation holds no digits: numbers and names in it
    are citations. Example: {"section": "findings", "findings": [{"kind": "change", "metric":
    "val/task_pass_rate@1", "from": "first", "to": "last"}, {"kind": "failure", "attempt": 1}],
    "interpretation": "It ended at [[key/pass_rate_end]] in [[attempt/2]], so the answer is yes for this
    seed.", "language": "en"}. What is wrong is sent back, at most twice; after that only the findings that
    can be looked up are kept. Failures and deviations that you leave out are added by the program. Writing a
    section again replaces it."""


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
    """Say that you are done. After a failure this gives up: results of what there is are collected, the
    report is written, and the experiment ends as failed. When you were asked to read results, it ends your
    part and the report is written. The outcome is decided by the raw files, not by you."""

    outcome: Annotated[Outcome, Filled()]
    reason: Annotated[str, Field(max_length=600, description="One sentence: why there is no more to do.")]


LOOKING = (ReadBlueprint, ReadConfig, ReadFile, ReadPane, SearchLog, MetricsSummary)
"""Actions that only look. Their outcome is `{"text": …}`."""

OFFERED: tuple[type[Action], ...] = (
    *LOOKING,
    *(RenderConfig, EditConfig, SetEnvironment, PatchCode, Check),
    *(Launch, Wait, Stop, Diagnose, Note, WriteReportSection, ProposeNext, Finish),
)
"""What a language model is offered, always all of it and in this order: the bytes of the tools never
change. The other actions are code's own business."""

_ALL: tuple[type[Action], ...] = (
    *OFFERED,
    InstallPackage,
    FreeOwned,
    RaiseLimit,
    Prepare,
    Pause,
    Collect,
    Report,
)


def arguments(action: Action) -> dict[str, Any]:
    """The action's arguments as JSON values, as the journal keeps them."""
    return action.model_dump(mode="json")


def action_of_entry(kind: str, args: Mapping[str, Any]) -> Action:
    """The action that the journal keeps as this kind and these arguments."""
    return next(action for action in _ALL if action.kind == kind).model_validate(args)
