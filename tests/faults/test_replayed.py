"""The diagnosis on logs of failures, most of which need a GPU or a cluster: `replayed*/`.
Whoever writes signatures does not read those folders.
"""

from functools import cache
from pathlib import Path

import pytest

from harness.diagnosis import diagnose_log
from harness.diagnosis.types import Diagnosis, Evidence
from tests.faults.replayed.labels import Label, Verdict, judge, lines_of, read_labels

NAMES = "replayed replayed_later replayed_fourth replayed_fifth replayed_sixth replayed_seventh"
FOLDERS = [Path(__file__).parent / name for name in NAMES.split()]
RIGHT_FAMILY = 0.9
ROOT_SHOWN = {"replayed_fifth": 0.93, "replayed_sixth": 0.93, "replayed_seventh": 0.9}
"""What was reached; 0.95 of the others."""


corpora = pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)


@cache
def verdicts(folder: Path) -> tuple[Verdict, ...]:
    """Every log of a corpus, diagnosed as it is."""
    return tuple(
        judge(label, diagnose_log(label.log, label.status), label.log.read_bytes())
        for label in read_labels(folder)
    )


@corpora
def test_most_failures_get_their_right_family_and_show_the_line_that_tells_the_cause(folder: Path) -> None:
    failures = [verdict for verdict in verdicts(folder) if not verdict.label.healthy]
    wrong = [verdict for verdict in failures if not verdict.right]
    assert 1 - len(wrong) / len(failures) >= RIGHT_FAMILY, "\n".join(lines_of(wrong))
    with_root = [verdict for verdict in failures if verdict.root is not None]
    missed = [verdict for verdict in with_root if not verdict.root]
    assert 1 - len(missed) / len(with_root) >= ROOT_SHOWN.get(folder.name, 0.95), "\n".join(lines_of(missed))


@corpora
def test_no_healthy_log_is_called_ill_with_confidence_and_no_evidence_is_invented(folder: Path) -> None:
    alarms = [verdict for verdict in verdicts(folder) if verdict.label.healthy and verdict.confidently_wrong]
    assert not alarms, "\n".join(lines_of(alarms))
    assert [verdict.label.log.name for verdict in verdicts(folder) if verdict.invented] == []


# --- the judge itself -------------------------------------------------------------------------------------

CONTENT = b"step:1 - actor/kl_loss:0.1\nTraceback (most recent call last):\nKeyError: 'prompt'\n"


@pytest.mark.parametrize(
    ("root", "line", "text", "shown", "invented"),
    [
        (["KeyError: 'prompt'"], 3, "KeyError: 'prompt'", True, 0),
        ([], 3, "KeyError: 'prompt'", True, 0),
        (["another line", "KeyError"], 3, "\x1b[31mKeyError:  'prompt'", True, 0),
        (["KeyError: 'prompt'"], 1, "step:1 - actor/kl_loss:0.1", False, 0),
        ([], 1, "step:1 - actor/kl_loss:0.1", False, 0),
        (["KeyError: 'prompt'"], 2, "KeyError: 'prompt'", True, 1),
        (["KeyError: 'prompt'"], 99, "KeyError: 'prompt'", True, 1),
    ],
)
def test_the_judge_tells_shown_from_missed_and_found_from_invented(
    tmp_path: Path, root: list[str], line: int, text: str, shown: bool, invented: int
) -> None:
    log = tmp_path / "a.log"
    log.write_bytes(CONTENT)
    found = Diagnosis("dataset_error", "x", "", evidence=(Evidence("a.log", line, text),), confidence=0.9)
    verdict = judge(Label(log, "dataset_error", tuple(root)), found, CONTENT)
    assert (verdict.right, verdict.root, verdict.invented) == (True, shown, invented)


def test_a_label_without_a_log_is_refused(tmp_path: Path) -> None:
    (tmp_path / "index.jsonl").write_text('{"file": "gone.log", "family": "gpu_oom"}\n')
    with pytest.raises(ValueError, match=r"index\.jsonl:1: `file` names no log"):
        read_labels(tmp_path)
