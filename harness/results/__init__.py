"""From the raw files of an experiment to its report: collect → facts → verify → figures → documents.

Read in this order: `types` (the words), `raw` (one reader per raw file), `collect` (attempts merged),
`task_statistics`, `facts` (numbers with their sources), `recompute` (each number read again from the disk),
`figures`, `report` (the only function other rooms call). `provenance` stands beside them: it is gathered when
a run starts. What the journal adds is told by `deviations` (what was changed on purpose), `journal_notes`
(events and remarks), `model_use` (what a language model cost) and `narrative` (what it wrote, citing facts).
`verify` checks a finished folder, `manifest` vouches for it.

Of several runs: `comparing.types` (the words), `stats` (over seeds), `compare`, `sweeps` (their report).

Other rooms import `types`, `deviations`, `journal_notes` and `model_use` freely (they are light), and
`report`, `verify` and `provenance` where they are used: these load numpy, scipy and matplotlib.
"""
