"""See `ajet`."""

from trainer_core.config.schema import Config as Config
from trainer_core.config.tasks import DataGeneration as DataGeneration
from trainer_core.config.tasks import EnvService as EnvService
from trainer_core.config.tasks import HuggingFaceDataset as HuggingfaceDatRepo
from trainer_core.config.tasks import JsonlDataset as JsonlDatasetFile
from trainer_core.config.tasks import JsonlFile as JsonlTrainingFp
from trainer_core.config.tasks import JsonlFile as JsonlValidationFp
from trainer_core.config.tasks import TaskReader as AjetTaskReader

__all__ = [
    "AjetTaskReader",
    "Config",
    "DataGeneration",
    "EnvService",
    "HuggingfaceDatRepo",
    "JsonlDatasetFile",
    "JsonlTrainingFp",
    "JsonlValidationFp",
]
