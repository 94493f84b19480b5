"""From recorded calls to the sequences that are trained on.

An agent's call repeats the history of the calls before it. `merge.merge` stores shared history once: a call
whose prompt begins with exactly the tokens of an earlier prompt and answer goes on in the same sequence,
any other call forks. `batch.to_batch` lays sequences end to end.

Histories are compared by token ids. `drift.splice_recorded` compares their text instead
(`timeline_compare_level: text`): more calls merge, but what was sampled after one tokenisation is then
trained after another. Its log-probability was measured in another context, so ratios to it are no longer 1
before the first update; `timeline/off_context` is the share of trained tokens that this concerns.
"""

from trainer_core.timeline.batch import to_batch
from trainer_core.timeline.merge import merge

__all__ = ["merge", "to_batch"]
