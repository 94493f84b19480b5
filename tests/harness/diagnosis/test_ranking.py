"""Which fault is the cause: order, handled errors, consequences, chains, alarms, and how sure it is."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.attempt import SURE_ENOUGH
from harness.diagnosis import citing, matching
from harness.diagnosis.ranking import QUOTED, Candidate, confidence, rank, reported_before
from harness.diagnosis.signatures import SignatureCatalogue
from harness.diagnosis.signatures.schema import parse
from harness.diagnosis.types import Fault, Frame, Log, SeenRow
from monitors.health import Alarm
from monitors.logs import Line
from monitors.metrics import Row

BOOK = SignatureCatalogue(
    tuple(
        parse(
            """
- {id: oom, family: gpu_oom, name: n, cause: '{tried} too much', when: [{message: 'CUDA out of memory(?:.*allocate (?P<tried>\\S+ GiB))?'}]}
- {id: timeout, family: collective_timeout, name: n, cause: c, when: [{message: 'Watchdog caught collective'}]}
- {id: peers, family: peer_crash_cascade, name: n, cause: c, role: cascade, when: [{message: 'Connection closed by peer'}]}
- {id: key, family: dataset_error, name: n, cause: c, breadth: general, when: [{exception: KeyError, frames: dataset}]}
- {id: file, family: path_not_found, name: n, cause: c, when: [{exception: FileNotFoundError}]}
- {id: refused, family: service_unavailable, name: n, cause: c, when: [{message: 'Connection refused'}]}
""",  # noqa: E501
            "test",
        )
    )
)


def fault(number: int, text: str, **more: Any) -> Fault:
    return Fault((Line(number, text),), (text,), last=more.pop("last", number), **more)


def raised(number: int, text: str, **more: Any) -> Fault:
    return fault(number, text, **{"type": text.partition(":")[0], "uncaught": True, **more})


def row(number: int, step: int) -> SeenRow:
    return SeenRow(Line(number, f"step:{step}"), Row(step, {"loss": 1.0}))


def ranked(*faults: Fault, rows: tuple[SeenRow, ...] = (), alarms: tuple[Alarm, ...] = ()) -> list[Candidate]:
    log = Log(Path("x.log"), faults, rows, line_count=10_000)
    return rank(log, matching.matches(log, BOOK), alarms)


OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.02 GiB."


TIMEOUT = "DistBackendError: Watchdog caught collective operation timeout"
PEERS = "RuntimeError: Connection closed by peer"
REFUSED = "ValueError: Connection refused"
RETRYING = fault(5, "Connection refused, retrying", handled=True, level="warning")
DATASET = Frame(8, 'File "dataset.py", line 3, in get', "dataset.py", "get", "x['a']")
RANKED = {
    "what another rank says later is not the cause": (
        [
            raised(10, OOM, source="0"),
            raised(50, TIMEOUT, source="3"),
            raised(60, PEERS, source="2"),
        ],
        ["oom", "peers", "timeout"],
    ),
    "nor is a file that is missing after an exception, whatever is known of that": (
        [raised(10, "KeyError: 'kwh'", frames=(DATASET,)), raised(40, "FileNotFoundError: features.csv")],
        ["key", "file"],
    ),
    "nor what it says before": ([raised(5, PEERS), raised(10, OOM)], ["oom", "peers"]),
    "alone a consequence is the best there is": ([raised(50, TIMEOUT)], ["timeout"]),
    "a bug comes before what was caught": ([RETRYING, raised(90, "FooError: nobody")], [None, "refused"]),
    "of two causes the earlier goes first": ([raised(10, REFUSED), raised(40, OOM)], ["refused", "oom"]),
    "a specific signature goes before a general one": (
        [raised(10, "KeyError: CUDA out of memory", frames=(DATASET,))],
        ["oom"],
    ),
}


@pytest.mark.parametrize("name", RANKED)
def test_the_order_of_causes(name: str) -> None:
    faults, order = RANKED[name]
    found = ranked(*faults)
    assert [each.signature for each in found] == order
    assert len(found) > 1 or confidence(found) >= 0.5


def test_what_the_log_measured_stands_in_the_cause() -> None:
    assert ranked(raised(10, OOM))[0].cause == "1.02 GiB too much"


def test_a_warning_alone_is_no_cause() -> None:
    assert ranked(RETRYING)[0].strength < 0


def test_what_comes_again_and_again_while_the_training_goes_on_is_none() -> None:
    noise = fault(100, "ERROR Connection refused", count=40, last=9_000)
    found = ranked(noise, raised(5_000, OOM), rows=(row(50, 1), row(9_500, 900)))
    assert found[0].signature == "oom"
    alone = ranked(noise, rows=(row(50, 1), row(9_500, 900)))
    assert confidence(alone) < 0.5 or alone[0].strength < 0


def test_alarms_count_less_than_a_crash_and_more_than_nothing() -> None:
    alarm = Alarm("nan", "loss is nan", lines=(3, 9), fatal=True)
    assert ranked(alarms=(alarm,))[0].family == "numerics_nan"
    assert ranked(raised(10, OOM), alarms=(alarm,))[0].family == "gpu_oom"
    assert not ranked(alarms=(replace(alarm, passed=True),))


def test_a_cause_beside_which_another_family_is_close_is_not_sure_enough_to_act_on() -> None:
    sure = ranked(raised(10, OOM))
    unsure = ranked(raised(10, OOM), raised(2_000, "ValueError: Connection refused"))
    assert confidence(sure) >= 0.9
    assert 0.3 < confidence(unsure) < SURE_ENOUGH
    assert confidence([]) < 0.5


def test_a_plain_line_above_an_exception_of_another_kind_may_be_quoted() -> None:
    quote = fault(3, f"sample 12: {OOM}", level="")
    alone, above = ranked(quote), ranked(quote, raised(40, "TypeError: not a number"))
    assert above[0].family == alone[0].family == "gpu_oom"
    assert confidence(above) <= QUOTED < confidence(alone)
    follows = ranked(quote, raised(40, "RuntimeError: Watchdog caught collective"))
    assert confidence(follows) > QUOTED


OF_DATA = Frame(39, 'File "dataset.py", line 3, in f', "dataset.py", "f")


def test_one_process_got_over_what_it_raised_before_it_made_steps_and_raised_something_else() -> None:
    rows = tuple(row(number, number) for number in range(20, 24))
    first, last = (
        raised(10, OOM),
        raised(40, "KeyError: 'text'", frames=(OF_DATA,)),
    )
    assert ranked(first, last, rows=rows)[0].line == 40
    assert ranked(first, last)[0].line == 10
    by_launcher = replace(last, wrapped_in=("x.ChildFailedError",))
    assert ranked(first, by_launcher, rows=rows)[0].line == 10
    assert ranked(replace(first, source="rank 1"), replace(last, source="rank 0"), rows=rows)[0].line == 10


def test_what_another_process_reported_before_a_consequence_is_pointed_at() -> None:
    timeout = raised(30, "RuntimeError: Watchdog caught collective", source="rank 0")
    reported = fault(10, "ERROR loader stopped: not a number", source="rank 1")
    assert reported_of(timeout, reported) == reported
    assert reported_of(timeout, replace(reported, source="rank 0")) is None
    assert reported_of(timeout, replace(reported, handled=True)) is None
    assert reported_of(timeout, fault(40, "ERROR loader stopped", source="rank 1")) is None
    assert reported_of(raised(30, OOM, source="rank 0"), reported) is None


def reported_of(*faults: Fault) -> Fault | None:
    log = Log(Path("x.log"), tuple(sorted(faults, key=lambda each: each.line)), line_count=100)
    candidates = rank(log, matching.matches(log, BOOK))
    return reported_before(log, candidates[0], candidates)


def test_evidence_is_cited_as_it_stands_with_where_it_came_from() -> None:
    own, library = "/exp/train.py", "/venv/site-packages/torch/x.py"
    frames = (
        Frame(5, f'  File "{own}", line 3, in <module>', own, "<module>"),
        Frame(7, f'  File "{library}", line 9, in f', library, "f"),
    )
    log = Log(Path("x.log"), (raised(10, OOM, frames=frames),), line_count=12)
    candidates = rank(log, matching.matches(log, BOOK))
    cited = citing.of_candidate(log, candidates[0], candidates)
    assert [(each.line, each.text) for each in cited] == [(5, frames[0].text), (10, OOM)]


def test_what_is_told_at_each_step_is_got_over_unless_it_lasts() -> None:
    rows = tuple(row(number, number) for number in range(100, 108))
    noise = fault(101, "ERROR Connection refused", count=6, last=106)
    assert ranked(noise, rows=rows)[0].strength < 0
    assert ranked(fault(101, "ERROR Connection refused", count=6, last=101), rows=rows)[0].strength > 0


def test_a_process_that_reports_further_steps_has_got_over_it() -> None:
    steps = tuple(
        SeenRow(Line(number, f"(TaskRunner pid=7) step:{number} - loss:1.0"), Row(number, {"loss": 1.0}))
        for number in (1, 2, 90, 91)
    )
    own, other = (raised(50, OOM, source=source) for source in ("TaskRunner pid=7", "Other pid=8"))
    assert ranked(own, rows=steps)[0].strength < ranked(other, rows=steps)[0].strength


def test_a_training_that_says_that_it_is_done_has_got_over_it() -> None:
    log = Log(Path("x.log"), (raised(50, OOM),), (row(1, 1), row(90, 9)), line_count=100)
    done = replace(log, last=(Line(99, "training finished: 9 steps"),))
    open_end, finished = (rank(each, matching.matches(each, BOOK))[0].strength for each in (log, done))
    assert finished < open_end - 3
