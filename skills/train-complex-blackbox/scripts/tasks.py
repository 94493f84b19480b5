"""The tasks. Change: where they come from."""

from trainer_core.types import Task


def get_training_dataset_item_list() -> list[Task]:
    """Every task that is trained on, with an id that stays the same."""
    digits = [f"{number:03d}" for number in range(100)]
    return [Task(task_id=text, main_query=text, answer="".join(sorted(text))) for text in digits]
