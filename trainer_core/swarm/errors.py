"""What can go wrong between a client and a swarm server."""

NO_CODE = (
    "a server does not take code from clients: install the version that is to train where the server runs, "
    "and start it again. Code of your own stays with the client, or is named in the config by its path there"
)


class SwarmError(Exception):
    """What was asked of the server was not done."""

    def __init__(self, message: str, code: str) -> None:
        super().__init__(message)
        self.code = code
        """For programs: the server's own, or one of this file's or of `client.py`."""


class SwarmServerOfflineError(SwarmError):
    """No server answers (`cannot_connect`), or it has no training (`offline`): the message says why."""


class EpisodeLostError(SwarmError):
    """The episode is not this client's any more (or `too_late`); its reward is not used."""


class SwarmConfigError(SwarmError):
    """The server has no config, or cannot train with the one it was sent."""


class SwarmRefusedError(SwarmError):
    """The server does not do this, or not now."""


_OF_CODES = {
    SwarmServerOfflineError: "cannot_connect offline",
    EpisodeLostError: "not_claimed not_yours too_late",
    SwarmConfigError: "bad_config no_config",
}


def error_of(code: str, message: str) -> SwarmError:
    """The error of a code."""
    found = (kind for kind, codes in _OF_CODES.items() if code in codes.split())
    return next(found, SwarmRefusedError)(message, code)
