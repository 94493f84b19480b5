"""What a policy may change, set, read and patch: the knowledge behind the guard's rules 2 and 4.

`science` (config edits, judged by their effects; `config_keys`, `effects`, `batches` serve it), `variables`
(environment), `places` (files), `patch_text` (code; `patched_python`, `python_reach` serve it). The guard
asks `science`, `places` and `patch_text`.
"""
