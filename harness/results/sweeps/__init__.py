"""The report of several runs: a `Comparison` in, documents and figures out.

Reading order: `wording` (the only sentences about a finding), `cautions` (what weakens them), `tables`,
`view` (the page as plain data), `series` and `curves` (what is drawn), `drawing`, `figures`, `report` (the
only module that other rooms call).
"""
