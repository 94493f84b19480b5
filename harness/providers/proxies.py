"""Through which proxy of the environment a call goes, as the HTTP library decides it.

In: a server's address. Out: the proxy's address for error texts, without its password, and whether proxies
count at all: a server on this machine is never asked through one.
"""

import urllib.request
from urllib.parse import urlsplit

from harness.providers.cost import is_loopback


def are_used(url: str) -> bool:
    """True if the proxies of the environment hold for this address."""
    return not is_loopback(url)


def proxy_for(url: str) -> str | None:
    """The proxy that requests to `url` go through; None: straight to the server."""
    parts = urlsplit(url)
    if not are_used(url) or urllib.request.proxy_bypass(parts.hostname or ""):
        return None
    proxies = urllib.request.getproxies()
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    return _without_user(proxy) if proxy else None


def named() -> str:
    """The proxies that the environment names, for people."""
    return ", ".join(sorted({_without_user(proxy) for proxy in urllib.request.getproxies().values()}))


def _without_user(proxy: str) -> str:
    scheme, separator, rest = proxy.rpartition("://")
    return f"{scheme}{separator}{rest.rpartition('@')[2]}"
