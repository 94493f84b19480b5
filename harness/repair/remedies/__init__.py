"""From the names of remedies that a signature lists to typed repairs, computed from what was measured.

In: names, and a `Situation` (the diagnosis, the config of the next launch, the environment, what the machine
says). Out: `Remedy`s in the order of the names: a config edit, a variable, a limit, a wait, an installation,
something of our own to free, or advice. What each is called and means stands in `remedies.yaml`; which keys
the known config trees have, in `keys.yaml`. Nothing here changes anything.
"""

from harness.repair.remedies.choice import known_names, remedies_for
from harness.repair.remedies.types import Kind, Remedy, Situation, Surroundings, Undo

__all__ = ["Kind", "Remedy", "Situation", "Surroundings", "Undo", "known_names", "remedies_for"]
