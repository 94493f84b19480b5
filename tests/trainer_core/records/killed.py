"""Writes episodes to the folder that it is given until it is killed; prints each step that is done."""

import sys
from pathlib import Path

from tests.trainer_core.records.conftest import episode, letters, say
from trainer_core.records.store import EpisodeStore

store = EpisodeStore(Path(sys.argv[1]), writes=True)
for step in range(1, 1_000_000):
    store.write("train", step, [episode(str(each), say("ask ", str(step))) for each in range(20)], letters)
    print(step, flush=True)
