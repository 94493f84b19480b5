"""How a training is doing, judged by its metric rows: alarms for numbers that a healthy run does not show.

Rows go in one by one, live (`LiveHealth`, used by a watch) or from a log that is over (`assess`, used by
diagnosis); out come `Alarm`s with the rows that show them. One small file per kind of trouble; what each
number is and why stands in docs/health.md. Memory and the cost of a row do not grow with the run.
"""

from monitors.health.assess import assess, assess_last
from monitors.health.course import Course
from monitors.health.live import LiveHealth
from monitors.health.types import Alarm

__all__ = ["Alarm", "Course", "LiveHealth", "assess", "assess_last"]
