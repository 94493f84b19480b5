"""The words of the whole experiments."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from harness.state import Outcome

Values = Mapping[str, str]


@dataclass(frozen=True)
class Experiment:
    """One experiment that fails at first.

    `program`: file in `trainings/`. `config`: its YAML; it, `command` and `environment` may hold `{name}` for
    what `world` (one of `experiments.WORLDS`) prepares. `environment`: what the caller of the harness set.
    `family`: of the first attempt's failure. `edits`: config keys that a repair must change; every other key
    stays as it is. `variables`: variables that it must set. `attempts`: how many there are in the end, None
    where that depends. `arguments`: more words for `harness run`. `more`: more sections of the blueprint.
    `needs_root`: for mounts. `told`: what the person must be told of it. `max_time` and `first_step`: limits
    of the blueprint. `outcome`: of one that is not repaired.
    """

    name: str
    program: str
    config: str
    family: str
    also_right: tuple[str, ...] = ()
    command: str = "python train.py config.yaml"
    world: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    edits: frozenset[str] = frozenset()
    variables: frozenset[str] = frozenset()
    attempts: int | None = None
    arguments: tuple[str, ...] = ()
    more: str = ""
    needs_root: bool = False
    told: str = ""
    max_time: str = "10 minutes"
    first_step: str = "5 minutes"
    outcome: Outcome = Outcome.FAILED

    @property
    def families(self) -> frozenset[str]:
        return frozenset((self.family, *self.also_right))
