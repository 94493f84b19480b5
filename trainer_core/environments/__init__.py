"""Environments that others have written, as sources of tasks and as workflows that play them.

`verifiers` runs environments of verifiers in interpreters of their own; `env_service` and `openenv` are
clients of services, `service` is a service to start from. From outside: `VerifiersEnvironments`, readers of
tasks, `environment_of` for a user's workflow, and the workflows that the config names.
"""
