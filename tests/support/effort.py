"""How much property tests try: all that they ask for, or a twentieth of it with `--hypothesis-profile=fast`.

Every test says how many examples, or seeds, are worth the time of a whole run, and gets its share of them.
"""

from __future__ import annotations

import os
from math import ceil

from hypothesis import settings

WHOLE = 100
"""As many examples as Hypothesis' own profile asks for."""

settings.register_profile("fast", max_examples=WHOLE // 20)


def share(count: int) -> int:
    """Of so many examples or seeds, those that this run tries; at least one."""
    return ceil(count * settings().max_examples / WHOLE)


def examples(count: int) -> settings:
    """What a property test is decorated with. No deadline: a busy machine proves nothing."""
    return settings(max_examples=share(count), deadline=None)


def bounded_plans(count: int) -> int:
    """On how many instances the lower bound is checked: so many, unless `make test-bounds` has asked for more."""
    return int(os.environ.get("RUNNEL_BOUND_INSTANCES", count))


def fuzz_frames(count: int, share: float) -> int:
    """How many frames a fuzz of peers has brokers take: so many, or this share of what `make fuzz` has asked for."""
    asked = os.environ.get("RUNNEL_FUZZ_FRAMES")
    return round(int(asked) * share) if asked else count


def small_plans(count: int) -> int:
    """How many small networks are compared with brute force: so many, unless `make test-bounds` has asked for more."""
    return int(os.environ.get("RUNNEL_SMALL_PLANS", count))
