"""Facts for this user of what failures and repairs of earlier experiments led to, in one file.

`knowledge` keeps lessons, `learning` makes them of a finished experiment, `proposals` makes a signature, for
a person to accept, of an unknown failure that was solved. Whoever repairs asks `preferred`.
"""

from harness.lessons.knowledge import Lesson, all_lessons, preferred
from harness.lessons.learning import learn

__all__ = ["Lesson", "all_lessons", "learn", "preferred"]
