"""Fetching a document from a URL, where the service allows it: http and https, public addresses only, bounded.

The host's name is resolved once, every address must be public, and the connection goes to the address that was
checked, so that a name cannot point elsewhere a moment later. Redirects are checked in the same way.
"""

from __future__ import annotations

import http.client
import ipaddress
import socket
import ssl
import time
from urllib.parse import urljoin, urlsplit

from derender.errors import InputError
from derender.serve.problems import ApiError

MAX_REDIRECTS = 3
_CHUNK = 1 << 16


def public_address(host: str, port: int) -> str:
    """An address of `host`. Raises ApiError 422 when there is none, or when any is private, local or reserved."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise ApiError(422, "url_unreachable", f"the host {host[:100]} cannot be found") from None
    addresses = [str(entry[4][0]).partition("%")[0] for entry in found]
    for address in addresses:
        ip = ipaddress.ip_address(address)
        if isinstance(ip, ipaddress.IPv6Address):
            ip = ip.ipv4_mapped or ip.sixtofour or ip
        if not ip.is_global or ip.is_multicast:
            raise ApiError(422, "url_forbidden", "the URL points to an address that is not public")
    return addresses[0]


def fetch(url: str, max_bytes: int, seconds: float = 30.0) -> bytes:
    """The body behind `url`. Raises ApiError 413 and 422, InputError when the transfer breaks."""
    end = time.monotonic() + seconds
    for _ in range(MAX_REDIRECTS + 1):
        response, connection = _open(url, end)
        try:
            if response.status in (301, 302, 303, 307, 308):
                url = urljoin(url, response.getheader("Location") or "")
                continue
            if response.status != 200:
                raise ApiError(422, "url_unreachable", f"the URL answers with status {response.status}")
            return _body(response, max_bytes, end)
        except (OSError, http.client.HTTPException) as error:
            raise InputError(f"the document behind the URL cannot be fetched: {error}") from error
        finally:
            connection.close()
    raise ApiError(422, "url_unreachable", f"the URL redirects more than {MAX_REDIRECTS} times")


def _open(url: str, end: float) -> tuple[http.client.HTTPResponse, http.client.HTTPConnection]:
    try:
        parts = urlsplit(url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError:
        raise ApiError(422, "bad_url", "this is not a URL") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username is not None:
        raise ApiError(422, "bad_url", "the URL must be http or https, with a host and without a user")
    if any(ord(char) <= 32 or ord(char) > 126 for char in url):
        raise ApiError(422, "bad_url", "the URL must not hold spaces, controls or letters beyond ASCII")
    address = public_address(parts.hostname, port)
    connection = http.client.HTTPConnection(parts.hostname, port, timeout=10)
    try:
        sock = socket.create_connection((address, port), timeout=min(10.0, max(0.1, end - time.monotonic())))
        if parts.scheme == "https":
            sock = ssl.create_default_context().wrap_socket(sock, server_hostname=parts.hostname)
        connection.sock = sock
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        connection.request("GET", path, headers={"User-Agent": "derender", "Accept-Encoding": "identity"})
        return connection.getresponse(), connection
    except (OSError, http.client.HTTPException) as error:
        connection.close()
        raise InputError(f"the document behind the URL cannot be fetched: {error}") from error


def _body(response: http.client.HTTPResponse, max_bytes: int, end: float) -> bytes:
    data = bytearray()
    while chunk := response.read(_CHUNK):
        data += chunk
        if len(data) > max_bytes:
            raise ApiError(413, "too_large", f"the document behind the URL is larger than {max_bytes} bytes")
        if time.monotonic() > end:
            raise ApiError(422, "url_unreachable", "fetching the document takes too long")
    return bytes(data)
