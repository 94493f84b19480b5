"""From a plan to what every run is: a blueprint and a config of its own, which differ in what is varied.

In: the plan of a sweep, the blueprint that it was made from, the frozen code. Out: `plan/<run>/blueprint.md`
and `config.yaml`. Rooms, in reading order: `command_line` (one flag or variable of a command, which
`harness.command` takes apart), `present` (what a key has now), `settings` (what a run sets), `composing`
(a run's blueprint as text), `reaching` and `checking` (keys that would be varied in vain), `writing`.
"""

from harness.sweep.varying.current_values import current
from harness.sweep.varying.writing import write_runs

__all__ = ["current", "write_runs"]
