"""Engines: what generates tokens and what updates weights, each behind a Protocol (`protocols.py`).

`local_inference` and `local_training` fill them with one transformers model in this process. `start_model`
finds or makes the model a run starts from; `tiny_model` and `warmup` make one from a seed, with nothing
downloaded.
"""
