"""From the names of remedies that a signature lists to typed repairs, computed from what was measured.

In: names, and a `Situation` (the diagnosis, the config of the next launch, the environment, the machine).
Out: `Remedy`s in the order of the names: a config edit, a variable, a limit, a wait, an installation,
something of our own to free, or advice. `remedies.yaml` says what each is called and means, and all that the
simple ones do; the others have code. Nothing is changed here; what the rules say of it, the guard is asked.
"""

from harness.attempt import Remedy
from harness.repair.remedies.choice import known_names, remedies_for
from harness.repair.remedies.situation import Machine, Situation

__all__ = ["Machine", "Remedy", "Situation", "known_names", "remedies_for"]
