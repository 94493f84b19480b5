"""From the raw files of an experiment to its report: collect → facts → recompute → figures → documents.

Read in this order: `types` (the words), `raw` (one reader per raw file), `collect` (attempts merged),
`task_statistics`, `facts` (numbers with their sources), `sources` and `recompute` (each number read again
from the disk), `figures`, `report` (the only function other rooms call). `provenance` is gathered when a run
starts. `summary` folds what the journal adds: `deviations` (what was changed on purpose), `journal_notes`
(events and remarks), `model_use` (what a language model cost); `narrative` is what it wrote, citing facts.
`manifest` vouches for a finished folder, `verify` checks it.

Of several runs: `comparing.types` (the words), `stats` (over seeds), `compare`, `sweeps` (their report).

Other rooms import `types`, `deviations`, `journal_notes` and `model_use` freely (they are light), and
`report`, `verify` and `provenance` where they are used: these load numpy, scipy and matplotlib.
"""
