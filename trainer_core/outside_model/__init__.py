"""A language model that is not trained: judges ask it, and it writes tasks.

`OutsideModel` speaks to any OpenAI-compatible endpoint and returns what it was asked for in a given shape;
`keys` finds address and keys in the environment. Instructions are in `templates/`.
"""

from trainer_core.outside_model.client import OutsideModel

__all__ = ["OutsideModel"]
