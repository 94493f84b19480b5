"""The research agent: a blueprint goes in, a trustworthy report comes out.

Rooms, in the order a run passes through them: `blueprint` (the written plan), `doctor` (what would make it
fail), `experiment` and `journal` (the result folder and what happened in it), `agent` (observe, decide,
guard, act), `diagnosis` (from a log to its cause, and to repairs), `lessons` (what earlier runs taught),
`results` (from raw files to the report), `cli` (what a person types). May import `monitors`, never
`trainer_core`.
"""

__version__ = "0.1.0"
