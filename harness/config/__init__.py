"""Settings files: the room that reads, edits and compares them, and knows what their keys mean.

`reader`    the one reader of settings files: refuses what grows too large (1 MB, 10,000 keys and values with
aliases written out, 100 levels) before anything is built
`edit`      text in, text out: `edit.edit` sets and removes dotted keys and keeps comments and order; `load`,
`read` parse
`values`    plain values: `flatten` (the only one), `changed` (the diff of two flat configs), `same_value`
`readings`  what a text says to trainers that read YAML 1.1 or 1.2: every value by path, and what an edit
changed
`keys`      the one table of keys: role (science, resource, path, cosmetic), and `Parameter`s, which are
settings that several trainers have (batch factors, lengths, shares of memory), with unit, aliases and
defaults
`training`  what the harness needs to know of the bundled trainer's config

The tables are `keys.yaml` and `trainer_keys.json`; the latter is written by the trainer's own schema.
"""

from harness.config.values import NOTHING, Scalar, as_text, changed, flatten, same_meaning, same_value

__all__ = ["NOTHING", "Scalar", "as_text", "changed", "flatten", "same_meaning", "same_value"]
