"""What a language model writes into a report: findings as typed data, worded by the program, and one free
interpretation per section in which numbers stand only as citations.

Read in this order: `findings` (what a model may write, and the tool's schema), `evidence` (what it is shown
and may cite), `run` and `sweep` (the evidence of a run and of a comparison), `sections` (what is refused;
what the report shows). A number or a direction reaches the report only through a fact that was looked up.
"""
