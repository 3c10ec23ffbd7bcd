"""Just enough HTTP to be asked for a page: one GET on a connection, one answer, and the connection ends.

Monitoring asks for it (node/admin.py). What asks for anything else, says too much or takes too long gets an error and
is gone; nothing of a request is used but its path and, for pages that are not for everybody, `Authorization`.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import cast

from runnel.node.threshold import Threshold
from runnel.wire import Credentials
from runnel.wire.messages import NAME_CHARACTERS_MAX, SECRET_CHARACTERS_MAX

REQUEST_BYTES_MAX = 8_192
PATIENCE_S = 5.0  # for the whole exchange

PLAIN = "text/plain; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Page:
    """An answer."""

    body: str
    status: HTTPStatus = HTTPStatus.OK
    content_type: str = PLAIN


Pages = Mapping[str, Callable[[], Page]]
"""By path."""

Authorise = Callable[[str, Credentials, str], Awaitable[HTTPStatus]]
"""Whether who has these credentials, or a certificate of this name, may see the page at a path: OK, or how not."""


class HttpExchange(asyncio.Protocol):
    """One request and its answer."""

    def __init__(
        self,
        pages: Pages,
        authorise: Authorise | None = None,
        threshold: Threshold | None = None,
    ) -> None:
        self._threshold = threshold or Threshold()
        self._pages = pages
        self._authorise = authorise
        self._check: asyncio.Task[None] | None = None
        self._read = b""
        self._transport: asyncio.Transport
        self._patience: asyncio.TimerHandle

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection is open."""
        self._transport = cast(asyncio.Transport, transport)
        self._threshold.enter(self, self._transport.abort)
        self._patience = asyncio.get_running_loop().call_later(PATIENCE_S, self._transport.abort)

    def data_received(self, data: bytes) -> None:
        """A piece of the request."""
        if self._transport.is_closing() or self._check is not None:
            return
        self._read += data
        if b"\r\n\r\n" in self._read or b"\n\n" in self._read:
            if self._authorise is None:
                self._answer(answer_request(self._read, self._pages))
            else:
                loop = asyncio.get_running_loop()
                self._check = loop.create_task(self._answer_if_allowed(self._authorise))
        elif len(self._read) > REQUEST_BYTES_MAX:
            self._answer(_error(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE))

    def connection_lost(self, error: Exception | None) -> None:
        """The connection is gone."""
        self._threshold.leave(self)
        self._patience.cancel()
        if self._check is not None:
            self._check.cancel()

    async def _answer_if_allowed(self, authorise: Authorise) -> None:
        shown = self._transport.get_extra_info("certificate_name", "") or ""
        status = await authorise(path_of(self._read), credentials_of(self._read), shown)
        page = (
            answer_request(self._read, self._pages) if status is HTTPStatus.OK else _error(status)
        )
        self._answer(page)

    def _answer(self, page: Page) -> None:
        self._transport.write(write_response(page))
        self._transport.close()


def answer_request(request: bytes, pages: Pages) -> Page:
    """The page that a request asks for, or an error.

    >>> pages = {"/healthz": lambda: Page("ok")}
    >>> answer_request(b"GET /healthz?a=1 HTTP/1.1\\r\\n\\r\\n", pages).body
    'ok'
    >>> answer_request(b"POST /healthz HTTP/1.1\\r\\n\\r\\n", pages).status.phrase
    'Method Not Allowed'
    """
    words = request.split(b"\n", 1)[0].decode("latin-1").split()
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        return _error(HTTPStatus.BAD_REQUEST)
    method, target, _ = words
    if method != "GET":
        return _error(HTTPStatus.METHOD_NOT_ALLOWED)
    page = pages.get(target.partition("?")[0])
    if page is None:
        return _error(HTTPStatus.NOT_FOUND, f"there are {', '.join(pages)}")
    return page()


def path_of(request: bytes) -> str:
    """The path that a request asks for; empty if it is no request."""
    words = request.split(b"\n", 1)[0].decode("latin-1").split()
    return words[1].partition("?")[0] if len(words) == 3 else ""


def credentials_of(request: bytes) -> Credentials:
    """Whose request it is: `Authorization: Basic …` or `Bearer …`; empty if it does not say so.

    >>> credentials_of(b"GET / HTTP/1.1\\r\\nAuthorization: Basic YWxpY2U6Z2VoZWlt\\r\\n\\r\\n")
    Credentials(user='alice')
    >>> credentials_of(b"GET / HTTP/1.1\\r\\n\\r\\n") == Credentials()
    True
    """
    lines = request.decode("latin-1").replace("\r", "").split("\n")
    headers = dict(line.split(":", 1) for line in lines[1:] if ":" in line)
    said = {name.strip().lower(): value for name, value in headers.items()}
    scheme, _, value = said.get("authorization", "").strip().partition(" ")
    value = value.strip()
    if scheme.lower() == "bearer":
        return Credentials(token=value[:SECRET_CHARACTERS_MAX])
    if scheme.lower() != "basic":
        return Credentials()
    try:
        user, _, password = base64.b64decode(value, validate=True).decode().partition(":")
    except ValueError:
        return Credentials()
    return Credentials(user[:NAME_CHARACTERS_MAX], password[:SECRET_CHARACTERS_MAX])


def write_response(page: Page) -> bytes:
    """A page as bytes on the connection."""
    body = page.body.encode()
    head = (
        f"HTTP/1.1 {page.status.value} {page.status.phrase}\r\n"
        f"Content-Type: {page.content_type}\r\n"
        f"Content-Length: {len(body)}\r\n"
        "Cache-Control: no-store\r\n"
        "Connection: close\r\n"
    )
    if page.status is HTTPStatus.METHOD_NOT_ALLOWED:
        head += "Allow: GET\r\n"
    if page.status is HTTPStatus.UNAUTHORIZED:
        head += 'WWW-Authenticate: Basic realm="runnel", charset="UTF-8"\r\n'
    return head.encode("latin-1") + b"\r\n" + body


def _error(status: HTTPStatus, hint: str = "") -> Page:
    return Page(f"{status.phrase}{': ' if hint else ''}{hint}\n", status)
