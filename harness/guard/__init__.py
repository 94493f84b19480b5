"""What no policy may do: pure functions of an action and an observation, by subject.

`rules` holds all; they ask `science` (edits of a config, judged by their effects, with `batches` for the
effective batch), `variables` (environment), `file_access` (what is read and patched) and `progress` (failures
that come back).
"""
