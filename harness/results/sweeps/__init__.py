"""The report of several runs: a `Comparison` in, documents and figures out.

Reading order: `wording` (how numbers and names are written, and the only sentences about a finding), `tables`
(the page as plain data), `figures` (what is drawn), `report` (the documents).
"""
