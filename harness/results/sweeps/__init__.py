"""The report of several runs: a `Comparison` in, documents and figures out.

Reading order: `wording` (the only sentences about a finding), `cautions` (what weakens them), `tables` (the
page as plain data), `figures` (what is drawn), `report` (the only module that other rooms call).
"""
