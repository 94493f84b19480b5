"""Swarm: many clients play the episodes that one training learns from, over HTTP.

    client.py ─HTTP─► server.py ─► book.py (claims, batches: states.py) ─► ledger.py (SQLite, before any ack)
    an application ► proxy.py, a client too: its users' requests become groups of episodes (docs/proxy.md)
    an agent ──────► /v1 ─► training.py ─private socket─► gate.py, in the training's own process (`ajet`)

`client.py` blocks and `async_client.py` is awaited; both speak through `connection.py`. `job.py` makes the
config that a client sends, `executor.py` plays many episodes in threads. `wire.py` holds what requests and
answers look like. The server has no model: it starts a training, a process of its own, and finds it again
when it was killed itself. docs/swarm.md describes all of it for users.
"""
