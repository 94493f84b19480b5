"""The report of several runs: a `Comparison` in, documents and figures out.

Reading order: `wording` (how numbers and names are written), `sentences` (the only sentences about a finding,
and what weakens it), `tables` (the page as plain data), `figures` (what is drawn), `report` (the documents).
"""
