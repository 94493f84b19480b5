"""From the raw files of an experiment to its report: collect → facts → verify → figures → documents.

Read in this order: `types` (the words), `raw` (one reader per raw file), `collect` (attempts merged),
`statistics`, `facts` (numbers with their sources), `verify` (each number read again from the disk),
`figures`, `report` (the only function other rooms call). `provenance` stands beside them: it is gathered when
a run starts.

Other rooms import `types` freely (it is light) and `report`, `verify` and `provenance` where they are used:
these load numpy, scipy and matplotlib.
"""
