"""Namesakes: of two clients of one name, one stays, wherever in the network they are.

At one broker the handshake sees to it (broker/connections.py). For all others a broker tells the network of every
client that connects anew (`ClientHere`), and a broker where another client of that name is says farewell to it, as it
would to one of its own.

Tokens tell clients apart, since all tokens of one session come from one source: a client that moves, or comes back by
another broker, is not its own namesake. Of two clients the one that started later stays, so that exactly one does if
they connect at the same time. A broker that has the later one answers whoever tells of the earlier one.

What was told while a part of the network could not be reached is not repeated: `runnel status` names such clients.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from runnel.broker.echoes import Echoes
from runnel.broker.ids import is_of_one_source
from runnel.broker.links import Link
from runnel.wire import TTL_MAX, ClientHere


class Namesakes:
    """What one broker, which has this name and these links, does about names of clients.

    `displace` ends the link of a client whose name another one has at the broker that is named.
    """

    def __init__(
        self, name: str, links: Mapping[str, Link], displace: Callable[[Link, str], None]
    ) -> None:
        self._name = name
        self._links = links
        self._displace = displace
        self._echoes = Echoes()

    def client_came(self, link: Link) -> None:
        """A client has connected anew: tell the network."""
        self._tell(self._here(link), None)

    def heard(self, link: Link, message: ClientHere) -> None:
        """A neighbour tells of a client that has connected somewhere."""
        own = self._links.get(message.name)
        if (
            own is not None
            and own.is_client
            and not is_of_one_source(own.peer_token, message.token)
        ):
            if message.token > own.peer_token:
                self._displace(own, message.broker)
            elif own.conn:
                link.send_message(self._here(own))
                return
        if message.ttl > 0 and not self._echoes.is_echo((message.name, message.token)):
            passed_on = ClientHere(message.name, message.token, message.broker, message.ttl - 1)
            self._tell(passed_on, link)

    def tick(self) -> None:
        """Time has passed."""
        self._echoes.tick()

    def _here(self, link: Link) -> ClientHere:
        return ClientHere(link.name, link.peer_token, self._name, TTL_MAX)

    def _tell(self, message: ClientHere, heard_from: Link | None) -> None:
        for link in self._links.values():
            if link.is_neighbour and link is not heard_from:
                link.send_message(message)
