"""Every failure of the laboratory, by what fails. Labels follow `families.yaml`."""

from tests.faults.lab.cases.code import CODE
from tests.faults.lab.cases.data import DATA
from tests.faults.lab.cases.health import HEALTH, HEALTHY
from tests.faults.lab.cases.machine import MACHINE
from tests.faults.lab.cases.models import MODELS
from tests.faults.lab.cases.network import NETWORK
from tests.faults.lab.cases.processes import PROCESSES
from tests.faults.lab.cases.trainer import TRAINER

CASES = (*MACHINE, *PROCESSES, *NETWORK, *DATA, *MODELS, *CODE, *HEALTH, *TRAINER)

__all__ = ["CASES", "HEALTHY"]
