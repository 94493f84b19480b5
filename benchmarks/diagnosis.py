"""How often the diagnosis names the right cause, and what it takes: on folders of labelled logs.

`python benchmarks/diagnosis.py DIR [DIR...]`; a DIR holds logs and `index.jsonl` (`file`, `family`, optional
`root` and `healthy`). Each log is diagnosed as it is and hidden in the middle of 50,000 lines of noise
(`_noise.py`, seeded by its place in the index). Judged (`tests/faults/replayed/labels.py`): the right family
first; the root line in the evidence; every line of the evidence really at its number; what healthy logs are
taken for; confidence, as a table of how often answers of that confidence were right. Time and memory are
those of `harness diagnose LOG --json` as a process with its start-up, on generated logs with one labelled log
in the middle. Peers in the same run: the last line that holds "Error" (as the root line) and `grep` (time).
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from itertools import cycle, islice, pairwise
from pathlib import Path

from _claim import Row, parser, publish
from _noise import HIDDEN_IN, hide, noise

from harness.diagnosis import diagnose_log, library_messages
from harness.diagnosis.types import UNKNOWN
from tests.faults.replayed.labels import (
    CONFIDENT,
    Label,
    Verdict,
    judge,
    lines_of,
    read_labels,
    tells,
)

BINS = (0.0, 0.3, 0.5, 0.7, 0.8, 0.9, 1.0)
REPEATS = 5
SAMPLE = "gpu_oom"
NOISE_LOGS, NOISE_SEED = 5, 1_000_000
SMALL, BIG = 10_000_000, 2_000_000_000
BLOCK_LINES = 100_000
POLL_S = 0.01
GREP = ("grep", "-n", "-i", "-E", "error|exception|traceback")


@dataclass(frozen=True)
class Judged:
    """A log's verdict; `took_s` for one diagnosis; `peer`: whether the last "Error" line was the root."""

    verdict: Verdict
    took_s: float
    peer: bool | None


@dataclass(frozen=True)
class Cost:
    """What one command took: wall time, CPU time, and its largest resident memory in MB."""

    seconds: float
    cpu_seconds: float
    most_mb: float


# --- accuracy -------------------------------------------------------------------------------------------


def judged(label: Label, content: bytes, log: Path) -> Judged:
    """Diagnose `content`, written to `log`."""
    log.write_bytes(content)
    begun = time.perf_counter()
    found = diagnose_log(log, label.status)
    took = time.perf_counter() - begun
    return Judged(judge(label, found, content), took, peer_finds(label, content))


def peer_finds(label: Label, content: bytes) -> bool | None:
    """Whether the last line that holds "Error" is the root line; None where there is none to be found."""
    if not label.needs_root:
        return None
    lines = [line for line in content.split(b"\n") if b"Error" in line]
    return bool(lines) and tells(lines[-1].decode(errors="replace"), label)


def judge_all(labels: Sequence[Label], hidden: bool, every: int = 1) -> list[Judged]:
    """Judge each log (or every so-manieth) as it is, or `hidden` in noise."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "training.log"
        return [
            judged(label, hide(content, seed).content if hidden else content, log)
            for seed, label in enumerate(labels)
            if seed % every == 0 and (content := label.log.read_bytes()) is not None
        ]


def noise_alone() -> list[float]:
    """Return how sure the diagnosis is of a failure in logs of noise alone; 0 where it sees none."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "training.log"
        sure = []
        for seed in range(NOISE_LOGS):
            log.write_bytes(b"".join(islice(noise(NOISE_SEED + seed), HIDDEN_IN)))
            found = diagnose_log(log)
            sure.append(0.0 if found.family == UNKNOWN else found.confidence)
        return sure


def share(hits: Iterable[bool | None]) -> str:
    """Return "93.1 % (27 of 29)" of those that are not None."""
    known = [hit for hit in hits if hit is not None]
    return f"{100 * sum(known) / len(known):.1f} % ({sum(known)} of {len(known)})" if known else "none"


def accuracy_rows(way: str, all_judged: Sequence[Judged]) -> list[Row]:
    """Return the rows about logs as they are, or about hidden ones."""
    failures = [each for each in all_judged if not each.verdict.label.healthy]
    healthy = [each.verdict for each in all_judged if each.verdict.label.healthy]
    invented = sum(each.verdict.invented for each in all_judged)
    took = [1000 * each.took_s for each in all_judged]
    right = share(each.verdict.right for each in failures)
    root = share(each.verdict.root for each in failures)
    peer = share(each.peer for each in failures)
    wrong = share(each.verdict.confidently_wrong for each in failures)
    acts = share(each.verdict.wrong_and_acts for each in failures)
    sure = sum(verdict.confidently_wrong for verdict in healthy)
    return [
        Row(f"{way}: right family first", right, ">= 90 %", "names none"),
        Row(f"{way}: root line in the evidence", root, ">= 95 %", f"last Error line: {peer}"),
        Row(f"{way}: evidence that is not in the log", str(invented), "0", ""),
        Row(f"{way}: failures, confident wrong answers", wrong, "<= 2 %", ""),
        Row(f"{way}: failures, wrong and sure enough to act on it", acts, "<= 2 %", ""),
        Row(f"{way}: healthy logs, confident wrong answers", f"{sure} of {len(healthy)}", "0", ""),
        Row(
            f"{way}: time per log, median / worst",
            f"{statistics.median(took):.0f} / {max(took):.0f} ms",
            "",
            "",
        ),
    ]


def confidence_rows(verdicts: Sequence[Verdict]) -> list[Row]:
    """Return the mean confidence of right and wrong answers, and how often each bin was right."""
    rows = []
    for name, chosen in (
        ("right", [each.confidence for each in verdicts if each.right]),
        ("wrong", [each.confidence for each in verdicts if not each.right]),
    ):
        told = f"{statistics.fmean(chosen):.2f} ({len(chosen)})" if chosen else "none"
        rows.append(Row(f"confidence: mean of {name} answers", told, "", ""))
    for low, high in pairwise(BINS):
        within = [
            each for each in verdicts if low <= each.confidence < high or each.confidence == high == 1.0
        ]
        if within:
            mean = statistics.fmean(each.confidence for each in within)
            right = share(each.right for each in within)
            rows.append(
                Row(f"confidence {low:.1f} to {high:.1f}: right", right, f"{100 * mean:.0f} % said", "")
            )
    return rows


def family_rows(verdicts: Sequence[Verdict]) -> list[Row]:
    """Return a row per family: how many were named right, and what the others were taken for."""
    families = defaultdict(list)
    for verdict in verdicts:
        families["healthy" if verdict.label.healthy else verdict.label.family].append(verdict)
    rows = []
    for family, members in sorted(families.items()):
        wrong = ", ".join(sorted({each.said for each in members if not each.right}))
        right = f"{sum(each.right for each in members)} of {len(members)}"
        rows.append(Row(f"{family}", right, "", f"taken for {wrong}" if wrong else ""))
    return rows


# --- time and memory ------------------------------------------------------------------------------------


def write_log(path: Path, size: int, failure: bytes) -> None:
    """Write about `size` bytes of noise with a failure in the middle; blocks of noise recur in a big one."""
    block = b"".join(islice(noise(0), BLOCK_LINES))
    others = [b"".join(islice(noise(seed), BLOCK_LINES)) for seed in range(1, min(8, 1 + size // len(block)))]
    written, told = 0, False
    with path.open("wb") as log:
        for each in cycle((block, *others)):
            if not told and written + len(each) > size // 2:
                cut = each.rfind(b"\n", 0, max(1, size // 2 - written)) + 1
                each = each[:cut] + failure.rstrip(b"\n") + b"\n" + each[cut:]
                told = True
            each = each[: size - written] if written + len(each) > size else each
            written += log.write(each)
            if written >= size:
                return


def cost_of(command: Sequence[str], fine: Callable[[int], bool]) -> tuple[Cost, str]:
    """Run a command; return what it took and its output.

    Memory is the high-water mark that Linux keeps per process, read every 10 ms.

    Raises:
        RuntimeError: it ended with a status that is not `fine`.
    """
    most_kb = 0
    with tempfile.TemporaryFile() as output:
        begun, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.PIPE)
        status = Path(f"/proc/{process.pid}/status")
        while process.poll() is None:
            with suppress(OSError):
                peak = [line for line in status.read_text().splitlines() if line.startswith("VmHWM")]
                most_kb = max([most_kb, *(int(line.split()[1]) for line in peak)])
            time.sleep(POLL_S)
        took, after = time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        assert process.stderr is not None
        complaint = process.stderr.read().decode(errors="replace")
        process.stderr.close()
        if not fine(process.returncode):
            raise RuntimeError(f"{' '.join(command)} ended with {process.returncode}: {complaint[-2000:]}")
        output.seek(0)
        return Cost(took, cpu, most_kb / 1000), output.read().decode(errors="replace")


def cost_rows(
    name: str, size: int, label: Label, repeats: int, goals: tuple[str, str]
) -> tuple[list[Row], dict]:
    """Return the rows for a log of this size, `label`'s log in the middle, and the raw numbers."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "training.log"
        free = shutil.disk_usage(folder).free
        if free < 1.1 * size:
            raise OSError(
                f"{folder} has {free / 1e9:.1f} GB free, {size / 1e9:.1f} GB are needed; set TMPDIR"
            )
        write_log(log, size, label.log.read_bytes())
        ask = [sys.executable, "-m", "harness", "diagnose", str(log), "--json"]
        ours, peers, found = [], [], {}
        for _ in range(repeats):
            cost, said = cost_of(ask, lambda status: status in (0, 1))
            ours.append(cost)
            found = json.loads(said)
            peers.append(cost_of((*GREP, str(log)), lambda status: status in (0, 1))[0])
    seconds = statistics.median(each.seconds for each in ours)
    cpu = statistics.median(each.cpu_seconds for each in ours)
    grep = statistics.median(each.seconds for each in peers)
    most = max(each.most_mb for each in ours)
    took = f"{seconds:.2f} s (CPU {cpu:.2f} s)"
    named = f"{found['family']} (is {label.family})"
    rows = [
        Row(f"{name}: time with start-up", took, goals[0], f"grep {grep:.2f} s"),
        Row(f"{name}: peak memory", f"{most:.0f} MB", goals[1], ""),
        Row(f"{name}: named", named, "", ""),
    ]
    raw = {"ours": [asdict(c) for c in ours], "grep": [asdict(c) for c in peers], "family": found["family"]}
    return rows, raw


# --- the table ------------------------------------------------------------------------------------------


def raw_of(all_judged: Sequence[Judged]) -> list[dict]:
    """Return the numbers behind the table, log by log."""
    return [
        {
            "log": each.verdict.label.log.name,
            "family": each.verdict.label.family,
            "healthy": each.verdict.label.healthy,
            "said": each.verdict.said,
            "signature": each.verdict.signature,
            "confidence": each.verdict.confidence,
            "root": each.verdict.root,
            "peer_root": each.peer,
            "invented": each.verdict.invented,
            "seconds": each.took_s,
        }
        for each in all_judged
    ]


def options() -> argparse.Namespace:
    """Read the command line."""
    made = parser(__doc__, quick="hide only every fourth log, measure 10 MB once")
    made.add_argument("folders", nargs="+", type=Path, metavar="DIR", help="logs with an index.jsonl")
    made.add_argument("--big", action="store_true", help="also measure a log of 2 GB")
    made.add_argument(
        "--status", action="store_true", help="say what each command returned, where it is known"
    )
    made.add_argument("--no-bank", action="store_true", help="without the bank of libraries' messages")
    made.add_argument("--no-cost", action="store_true", help="judge only; measure neither time nor memory")
    return made.parse_args()


def main() -> None:
    arguments = options()
    labels = [label for folder in arguments.folders for label in read_labels(folder)]
    if not arguments.status:
        labels = [replace(label, status=None) for label in labels]
    if arguments.no_bank:
        library_messages.matches = lambda *_: []
    plain = judge_all(labels, hidden=False)
    hidden = judge_all(labels, hidden=True, every=4 if arguments.quick else 1)
    alone = noise_alone()
    alarms = f"{sum(sure >= CONFIDENT for sure in alone)} of {len(alone)}"
    rows = [
        *accuracy_rows("as it is", plain),
        *accuracy_rows(f"hidden in {HIDDEN_IN:,} lines", hidden),
        Row("noise alone: confident wrong answers", alarms, "0", ""),
        *confidence_rows([each.verdict for each in plain]),
        *family_rows([each.verdict for each in plain]),
    ]
    raw: dict = {"plain": raw_of(plain), "hidden": raw_of(hidden), "noise alone": alone}
    if not arguments.no_cost:
        failures = [label for label in labels if not label.healthy]
        sample = next((label for label in failures if label.family == SAMPLE), failures[0])
        once = 1 if arguments.quick else REPEATS
        measured, raw["start-up"] = cost_rows("4 kB, which is start-up alone", 4000, sample, once, ("", ""))
        rows += measured[:1]
        measured, raw["10 MB"] = cost_rows("10 MB", SMALL, sample, once, ("< 1 s", ""))
        rows += measured
        if arguments.big:
            measured, raw["2 GB"] = cost_rows("2 GB", BIG, sample, 1, ("< 60 s", "< 300 MB"))
            rows += measured
    publish("naming the cause of a failure", rows, arguments, raw)
    for way, all_judged in (("as it is", plain), ("hidden", hidden)):
        for line in lines_of([each.verdict for each in all_judged]):
            print(f"{way}: {line}")
    guessed = sum(label.needs_root and not label.roots for label in labels)
    print(
        f"{len(labels)} logs; root lines taken from the label, guessed for {guessed} (last exception line)."
    )
    print(f"A confident answer is one of at least {CONFIDENT}.")


if __name__ == "__main__":
    main()
