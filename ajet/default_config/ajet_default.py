"""See `ajet`; the older name of `ajet_config_schema`."""

from trainer_core.config.schema import Config as Config
from trainer_core.config.tasks import HuggingFaceDataset as HuggingfaceDatRepo
from trainer_core.config.tasks import JsonlDataset as JsonlDatasetFile
from trainer_core.config.tasks import JsonlFile as JsonlTrainingFp
from trainer_core.config.tasks import TaskReader as AjetTaskReader

__all__ = ["AjetTaskReader", "Config", "HuggingfaceDatRepo", "JsonlDatasetFile", "JsonlTrainingFp"]
