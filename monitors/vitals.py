"""Remembers of an attempt what tells a living run from one that is lost: silences and last errors.

In: lines and looks at the clock, as a watch comes by them. Out: `fatal`, the reasons why the run cannot come
to a good end. Memory stays the same however long the run. What its numbers say is judged in `health/`.
"""

from monitors.log_prefixes import RAY
from monitors.logs import Line, is_progress_bar
from monitors.rules import ERROR_START, HANG_S, FatalSign, is_dead_after_error, is_hang

AWAY_S = 600.0


class Vitals:
    """The signs of life of one attempt. Times are those of a clock that nobody sets."""

    def __init__(self) -> None:
        self._error: Line | None = None
        self._looked_at: float | None = None
        self._signs: object = None
        self._counts_from = 0.0
        self._longest_silence_s = 0.0

    @property
    def error_stands(self) -> bool:
        """True if an error was the last thing of substance, so that further lines must be shown to `line`."""
        return self._error is not None

    def line(self, line: Line) -> None:
        """Take in one line of the log; blank ones, progress bars and a traceback's frames say nothing."""
        text = RAY.sub("", line.text)
        if ERROR_START.match(line.text):
            self._error = line
        elif self._error and text and not text[0].isspace() and not is_progress_bar(text):
            self._error = None

    def look(self, now: float, running_s: float, signs: object) -> None:
        """Take in what shows that the attempt lives, by differing from the look before. What happened before
        the first look counts as one silence, at most as long as the limit, since a longer one would have been
        told."""
        if self._looked_at is None:
            self._longest_silence_s = min(running_s, HANG_S)
            self._counts_from = now
        elif now - self._looked_at > AWAY_S:  # the machine slept: that is no silence of the training's
            self._counts_from = now
        elif signs != self._signs:
            self._longest_silence_s = max(self._longest_silence_s, self.silent_s(now))
            self._counts_from = now
        self._looked_at, self._signs = now, signs

    def silent_s(self, now: float) -> float:
        """For how long nothing has changed, as far as it was watched."""
        return now - self._counts_from

    def fatal(self, now: float) -> dict[FatalSign, str]:
        """Say why the run cannot come to a good end, a sentence with its evidence for each sign."""
        if self._looked_at is None:
            return {}
        found: dict[FatalSign, str] = {}
        silent_s = self.silent_s(now)
        longest_s = self._longest_silence_s
        if is_hang(silent_s, longest_s):
            found["silence"] = (
                f"no output and no metric row for {silent_s:.0f} s; the limit is {HANG_S:.0f} s, "
                f"and the longest silence before was {longest_s:.0f} s"
            )
        if self._error and is_dead_after_error(silent_s, longest_s):
            found["after_error"] = (
                f"nothing was printed for {silent_s:.0f} s after the error in line {self._error.number}: "
                f"{self._error.text[:300]}"
            )
        return found
