"""From the raw files of an experiment to its report: collect → facts → figures → documents.

Read in this order: `types` (the words), `raw` (one reader per raw file), `collect` (attempts merged),
`task_statistics`, `facts` (numbers with their sources and recipes), `sources` (what stands there, and what a
recipe makes of it), `figures`, `run` (what the journal tells), `deviations` (what was changed on purpose),
`view` (what the documents show), `report` (the only function other rooms call). `provenance` is gathered when
a run starts. `narrative` is what a language model wrote, citing facts. `manifest` vouches for a finished
folder, `verify` checks it.

Of several runs: `comparing.types` (the words), `stats` (over seeds), `compare`, `sweeps` (their report).

Other rooms import `types`, `run` and `deviations` freely (they are light), and `report`, `verify` and
`provenance` where they are used: these load numpy, scipy and matplotlib.
"""
