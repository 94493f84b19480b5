"""From a diagnosis to pending changes: what the next launch will use, and the actions that change it.

`remedies/` are the built-in repairs, as values. `repair_plan` finds those that apply to a failure or to
what the check before a launch found; `apply_changes` carries repairs out (config, launch command,
environment, code; packages by `installing`, what is ours and in the way by `leftovers`) and says what a
launch uses; `smoke` tries it for a moment, `first_smoke` the first launch, where `apart` drops all that it
writes. `code_copy` freezes code (by `git`), for a correction (`patched_code`, which runs in the sandbox of
`containment`) and for the runs of a sweep.
"""
