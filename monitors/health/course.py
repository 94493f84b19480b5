"""The course of one run: every rule of this room, fed row by row.

In: rows with the line each stands in, and word of errors between them. Out: alarms when they come up (`add`),
those that stand (`alarms`), and those of a run that is over (`at_end`).
"""

from monitors.health.divergence import KlExplosion, LossDivergence
from monitors.health.evaluation import EvaluationFails
from monitors.health.evidence import Progress
from monitors.health.gradients import GradientSpikes
from monitors.health.learning_signal import FlatLoss, NoSignal
from monitors.health.names import read
from monitors.health.not_finite import NotFinite
from monitors.health.policy import AllClipped, EntropyCollapse, LengthAtCap
from monitors.health.reward import SHORTEST_WINDOW, WINDOW, RewardCollapse, RewardStuck
from monitors.health.speed import SlowSteps
from monitors.health.types import Alarm, Rule
from monitors.metrics import Row


class Course:
    """`file`: what lines are numbered in. `window`: rows that make a level; a run that is over and was short
    is judged with a smaller one."""

    def __init__(self, file: str = "", window: int = WINDOW) -> None:
        window = max(SHORTEST_WINDOW, min(WINDOW, window))
        shortened = window / WINDOW
        self._progress = Progress(window)
        self._evaluation = EvaluationFails(self._progress)
        self._rules: tuple[Rule, ...] = (
            NotFinite(file),
            LossDivergence(),
            RewardStuck(),
            RewardCollapse(self._progress, window),
            NoSignal(),
            FlatLoss(),
            EntropyCollapse(self._progress, shortened),
            KlExplosion(),
            GradientSpikes(),
            AllClipped(),
            LengthAtCap(self._progress, shortened),
            self._evaluation,
            SlowSteps(),
        )
        self._count = 0

    def add(self, row: Row, line: int) -> list[Alarm]:
        """Take in the next row, and return the alarms that it brings up."""
        self._count += 1
        seen = read(row, line, self._count)
        self._progress.add(seen)
        raised = []
        for rule in self._rules:
            stood = rule.standing
            rule.add(seen)
            if rule.standing and not stood:
                raised.append(rule.alarm())
        return raised

    def error(self) -> None:
        """Take in that the log reported an error."""
        self._evaluation.error()

    def alarms(self) -> list[Alarm]:
        """Return what stands now."""
        return [rule.alarm() for rule in self._rules if rule.standing]

    def at_end(self) -> list[Alarm]:
        """Return what stands at the end of a run that is over."""
        return [alarm for rule in self._rules if (alarm := rule.at_end()) is not None]
