"""The mathematics of the update: advantages, losses, KL estimators, entropy.

Pure functions on tensors; no model, no config, no state. Defaults are verl's, and every choice is an
argument.
"""
