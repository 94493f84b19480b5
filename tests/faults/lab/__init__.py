"""The fault laboratory: failures that really happen, and what the product makes of them.

Every program of `programs/` and `short_programs.txt` runs and meets its real fault. `cases.yaml` says what
each is, `whole` are the experiments that the harness must bring to a good end, or must not. Labels follow
`harness/diagnosis/signatures/families.yaml`; no signature was read for them.
"""
