"""See `ajet`."""

from trainer_core.tasks.router import HuggingFaceTaskReader as HuggingFaceTaskReader
from trainer_core.tasks.router import RouterTaskReader as RouterTaskReader
