"""A finished run checked against its own raw files, as `harness verify` does.

Read in this order: `types` (what was checked, what differs), `schema` (what result.json and finish.flag must
look like before anything in them is used), `fingerprints` (what they vouch for), `files` (what is missing,
changed, or there too many), `figures` (the tables behind the figures), `reported` (result.json as a whole),
`ending` (finish.flag and the journal), `run` (all of it together); `same` compares two records of the same
numbers, `documents` two pages or drawings, `said` what a model wrote. Sweeps are checked by
`harness.sweep.verifying`, which uses this.

Nothing is written. Whatever a folder holds, it makes no error: what cannot be read is a discrepancy.
"""
