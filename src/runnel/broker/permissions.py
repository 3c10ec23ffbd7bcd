"""What a peer may send to a broker, ask and command: `may` is asked before any handler runs.

Everything that a peer says after its Hello passes here once, but for publications, which are far too many: those the
router takes from whoever has a part in routing (`Link.is_routed`). What a message may contain the decoder has checked
by then (`wire/bounds.py`). What a user may subscribe to and publish its permit says (permits.py, access.py). A peer
that sends what its kind may not has broken the protocol, and loses its own link; nobody else notices.
"""

from __future__ import annotations

from functools import cache

from runnel.broker.kinds import kind_of
from runnel.broker.links import Link
from runnel.broker.questions import Command, Question
from runnel.wire import Message, may_go


def may(link: Link, what: Message | Question) -> bool:
    """Whether a peer may send this message, ask this question or give this command: by its kind, and by its role."""
    if not _may(link.kind, type(what)):
        return False
    standing = link.standing
    if standing is None:
        return True
    if isinstance(what, Command):
        return standing.permit.may_operate("operate")
    return link.is_routed or standing.permit.may_operate("read")


@cache  # this is for every message
def _may(name: str, what: type[Message | Question]) -> bool:
    kind = kind_of(name)
    if issubclass(what, Command):
        return kind.gives_commands
    return issubclass(what, Question) or may_go(what, kind.says)
