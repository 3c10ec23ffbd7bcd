"""What `runnel simulate --steps` prints: every event of a simulated run, with the frames that it brings."""

from __future__ import annotations

import click

from runnel.broker.events import Event, FramesArrived
from runnel.quantities import SECOND
from runnel.wire import Ack, Decoder, Hello, Publication


def print_step(now: int, where: str, event: Event) -> None:
    """Print one event of a run; acknowledgements alone are left out."""
    what = _describe_frames(event.chunk) if isinstance(event, FramesArrived) else str(event)
    if what:
        click.echo(f"{now / SECOND:14.9f} s  {where:<8} {what}")


def _describe_frames(chunk: bytes) -> str:
    """The frames of a chunk that begins with one; acknowledgements are left out."""
    try:
        frames = Decoder().feed(chunk)
    except Exception:  # a piece from the middle of a frame
        return f"{len(chunk)} bytes of a frame"
    told = []
    for frame in frames:
        if isinstance(frame, Publication):
            told.append(f"publication {frame.identity}")
        elif not isinstance(frame, Ack):
            told.append(str(frame) if isinstance(frame, Hello) else _describe_frame(frame))
    return ", ".join(told)


def _describe_frame(frame: object) -> str:
    values = [
        str(getattr(frame, name)) for name in ("id", "token", "count") if hasattr(frame, name)
    ]
    return f"{type(frame).__name__}({', '.join(values)})"
