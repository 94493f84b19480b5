"""What failures and repairs of earlier experiments teach: one file of facts for this user.

`learning` makes lessons of a finished experiment, `knowledge` keeps them, `proposing` makes a signature, for
a person to accept, of an unknown failure that somebody solved. Whoever repairs asks `preferred`.
"""

from harness.lessons.knowledge import all_lessons, preferred
from harness.lessons.learning import learn
from harness.lessons.types import Lesson

__all__ = ["Lesson", "all_lessons", "learn", "preferred"]
