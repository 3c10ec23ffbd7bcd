"""The wire: what brokers and clients say to each other, and how it looks as bytes.

Everything that other rooms need is here; the files behind it are in reading order:

    header       the layout of frames, limits, the version
    registry     which message has which tag and lane, and who may send it; modules bring theirs
    bounds       whether every field of a message is bounded
    messages     the core's messages
    extension    what only some publications carry, behind the payload
    publication  the one that is not a message: a header, and a body that nobody rewrites
    selections   what subscriptions and advertisements ask for, as bytes
    codec        messages to frames, and any split of bytes back to them

>>> from runnel.language import EVERYTHING
>>> quote = make_publication(7, 1, {"symbol": "YHOO"}, b"chart")
>>> subscribe = Subscribe(3, raw_selection(EVERYTHING), 10)
>>> [type(frame).__name__ for frame in Decoder().feed(quote.frame() + encode(subscribe))]
['Publication', 'Subscribe']
"""

from runnel.wire.codec import Decoder, Frame, encode
from runnel.wire.extension import Extension, with_stamp
from runnel.wire.header import (
    ATTRIBUTES_BYTES_MAX,
    FRAME_BYTES_MAX,
    ID_MAX,
    NAME_BYTES_MAX,
    PROTOCOL,
    TTL_MAX,
)
from runnel.wire.messages import (
    Ack,
    Advertise,
    Barrier,
    Bye,
    ClientHere,
    Credentials,
    Denied,
    Fence,
    Goal,
    Handover,
    Hello,
    Listens,
    Loss,
    Mcm,
    Missed,
    MissingLinks,
    Mum,
    PingAnswer,
    Pinged,
    PingRequest,
    Reached,
    Refused,
    RefusedPublications,
    Relocate,
    Stage,
    Subscribe,
    Unadvertise,
    Unsubscribe,
)
from runnel.wire.publication import Publication, make_publication, with_scope
from runnel.wire.registry import (
    MODULE_TAG_MIN,
    REGISTRY,
    Lane,
    Message,
    Registry,
    Way,
    lane_of,
    may_go,
    register,
    tag_of,
)
from runnel.wire.selections import (
    SELECTION_BYTES_MAX,
    SelectionCache,
    decode_selection,
    encode_selection,
    raw_selection,
)

__all__ = [
    "ATTRIBUTES_BYTES_MAX",
    "FRAME_BYTES_MAX",
    "ID_MAX",
    "MODULE_TAG_MIN",
    "NAME_BYTES_MAX",
    "PROTOCOL",
    "REGISTRY",
    "SELECTION_BYTES_MAX",
    "TTL_MAX",
    "Ack",
    "Advertise",
    "Barrier",
    "Bye",
    "ClientHere",
    "Credentials",
    "Decoder",
    "Denied",
    "Extension",
    "Fence",
    "Frame",
    "Goal",
    "Handover",
    "Hello",
    "Lane",
    "Listens",
    "Loss",
    "Mcm",
    "Message",
    "Missed",
    "MissingLinks",
    "Mum",
    "PingAnswer",
    "PingRequest",
    "Pinged",
    "Publication",
    "Reached",
    "Refused",
    "RefusedPublications",
    "Registry",
    "Relocate",
    "SelectionCache",
    "Stage",
    "Subscribe",
    "Unadvertise",
    "Unsubscribe",
    "Way",
    "decode_selection",
    "encode",
    "encode_selection",
    "lane_of",
    "make_publication",
    "may_go",
    "raw_selection",
    "register",
    "tag_of",
    "with_scope",
    "with_stamp",
]
