"""What a language model adds to the diagnosis: its answers about open causes, recorded once and judged.

`python benchmarks/diagnosis_by_model.py DIR --ask FILE` writes the requests about the logs of a folder whose
cause is open (unknown, or known by its kind only), one JSON object per line: `log`, `system`, `opening`,
`schema`. `--answers FILE` judges answers to them (`log`, and the arguments of `name_cause`) through the code
that `harness diagnose --model` runs: an answer that cites what it was not shown is discarded, and the
program's own stands. The table has the answers of the program alone beside those with the model.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

from _claim import Row, parser, publish

from harness.actions import NameCause
from harness.agent import model_cause
from harness.diagnosis import diagnose_log
from harness.diagnosis.types import Diagnosis
from harness.providers.chat import UserTurn, tokens_of
from harness.providers.tools import CallError
from tests.faults.replayed.labels import Label, Verdict, judge, lines_of, read_labels


@dataclass(frozen=True)
class Case:
    """A log, what the program made of it, and what it and the model did together."""

    label: Label
    alone: Diagnosis
    together: Diagnosis

    def verdict(self, found: Diagnosis) -> Verdict:
        return judge(self.label, found, self.label.log.read_bytes())


def write_requests(found: dict[str, Diagnosis], file: Path) -> None:
    """Write the request of each open diagnosis, and print how large they are."""
    asked = {name: model_cause.request(each) for name, each in found.items() if each.is_open}
    with file.open("w") as out:
        for name, request in asked.items():
            (opening,) = (turn.text for turn in request.turns if isinstance(turn, UserTurn))
            schema = [tool.parameters for tool in request.tools]
            row = {"log": name, "system": request.system, "opening": opening, "schema": schema}
            out.write(json.dumps(row) + "\n")
    sizes = sorted(tokens_of(each.size) for each in asked.values())
    print(f"{len(asked)} of {len(found)} are open; input tokens {sizes[len(sizes) // 2]}, most {sizes[-1]}")


def with_answers(found: dict[str, Diagnosis], file: Path) -> tuple[dict[str, Diagnosis], Counter[str]]:
    """The diagnoses with the answers that could be used, and what became of all."""
    together, became = dict(found), Counter[str]()
    for line in file.read_text().splitlines():
        answer = json.loads(line)
        name = answer.pop("log")
        try:
            together[name] = model_cause.named(
                found[name], NameCause(**answer), "the model", model_cause.shown(found[name])
            )
            became["used"] += 1
        except (CallError, ValueError) as error:
            became[f"discarded: {str(error)[:60]}"] += 1
    return together, became


def share(hits: list[bool | None]) -> str:
    known = [hit for hit in hits if hit is not None]
    return f"{100 * sum(known) / max(1, len(known)):.1f} % ({sum(known)} of {len(known)})"


def rows(cases: list[Case]) -> list[Row]:
    """The program alone as the peer, both together as ours."""
    failures = [case for case in cases if not case.label.healthy]
    healthy = [case for case in cases if case.label.healthy]

    def both(what: str, some: list[Case], of: str, goal: str) -> Row:
        ours = share([getattr(case.verdict(case.together), of) for case in some])
        return Row(what, ours, goal, share([getattr(case.verdict(case.alone), of) for case in some]))

    return [
        both("right family", failures, "right", ">= 95 %"),
        both("root line in the evidence", failures, "root", ">= 95 %"),
        both("confident wrong answers", failures, "confidently_wrong", "<= 2 %"),
        both("healthy logs, confident wrong answers", healthy, "confidently_wrong", "0"),
    ]


def main() -> None:
    made = parser(__doc__)
    made.add_argument("folder", type=Path, metavar="DIR", help="logs with an index.jsonl")
    made.add_argument("--status", action="store_true", help="say what commands returned, where it is known")
    made.add_argument("--ask", type=Path, metavar="FILE", help="write the requests here, and stop")
    made.add_argument("--answers", type=Path, metavar="FILE", help="judge these answers")
    options = made.parse_args()
    labels = {each.log.name: each for each in read_labels(options.folder)}
    if not options.status:
        labels = {name: replace(label, status=None) for name, label in labels.items()}
    found = {name: diagnose_log(label.log, label.status) for name, label in labels.items()}
    if options.ask:
        write_requests(found, options.ask)
        return
    together, became = with_answers(found, options.answers)
    cases = [Case(label, found[name], together[name]) for name, label in labels.items()]
    publish("naming causes, with a model for what is open", rows(cases), options, became)
    print("\n".join(f"{count} {what}" for what, count in became.most_common()))
    print(*lines_of([case.verdict(case.together) for case in cases]), sep="\n")


if __name__ == "__main__":
    main()
