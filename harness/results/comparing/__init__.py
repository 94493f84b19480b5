"""Many runs side by side: what is compared, what each run came to, and what can honestly be said of it.

Reading order: `types` (the words), then `harness.results.stats` (the mathematics, over seeds) and
`harness.results.compare` (a `Study` in, a `Comparison` out). Nothing here knows how the runs were made: a
sweep hands in its plan, `harness compare` any folders.
"""
