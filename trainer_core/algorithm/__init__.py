"""The mathematics of the update on flat tokens: `advantages` (what a token earned), `losses` and `kl` (per
token), `weights` (how they become one number), `correction` (of what another policy sampled), `logits`.

Pure functions on tensors; no model, no config, no state. Defaults are verl's, and every choice is an
argument. `names` lists what there is, without torch.
"""
