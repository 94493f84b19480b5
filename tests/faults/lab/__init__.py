"""The fault laboratory: failures that really happen, and what the product makes of them.

Nothing here is a recorded text or a stand-in: every program of `programs/` and `short_programs.txt` runs,
meets its real fault (a full disk, a taken port, a dead worker, a refusing server …) and ends as it ends.
`cases.yaml` says what each is, `confine` gives it its limits, `run` and `warm` run it, `whole` are the
experiments that the harness must bring to a good end, or must not. `python -m tests.faults.lab.produce DIR`
writes the logs as a labelled folder.

Labels follow `harness/diagnosis/signatures/families.yaml`; no signature was read for them.
"""
