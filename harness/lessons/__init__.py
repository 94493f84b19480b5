"""Facts for this user of what failures and repairs of earlier experiments led to, in one file.

`knowledge` makes lessons of a finished experiment and keeps them, `proposals` makes a signature, for a person
to accept, of an unknown failure that was solved. Whoever repairs asks `preferred`.
"""

from harness.lessons.knowledge import Lesson, all_lessons, learn, preferred

__all__ = ["Lesson", "all_lessons", "learn", "preferred"]
