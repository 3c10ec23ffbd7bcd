"""The parameters of profiling (green §III) at one broker. The types are the checks for values read from a file."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

Bits = Annotated[int, Meta(ge=64, le=65_536)]
Bytes = Annotated[int, Meta(ge=0, le=1 << 40)]
Microseconds = Annotated[float, Meta(ge=0, le=1e6)]


class ProfilesConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """Whether profiles are kept, and the capacity of the broker, for `runnel plan`."""

    enabled: bool = False
    bits: Bits = 1_280
    """How many publications of a publisher a subscription's profile remembers."""

    output_bytes_per_s: Bytes = 0
    """The output capacity that a plan may use; 0: the broker's own limit."""

    matching_base_us: Microseconds = 0.0
    matching_each_us: Microseconds = 0.0
    """The time to match a publication, and the addition for each subscription; both 0: measured values are used."""

    @property
    def matching_ns(self) -> tuple[int, int] | None:
        """The matching-delay function in nanoseconds, if it is given.

        >>> ProfilesConfig(matching_base_us=20, matching_each_us=0.5).matching_ns, ProfilesConfig().matching_ns
        ((20000, 500), None)
        """
        if not (self.matching_base_us or self.matching_each_us):
            return None
        return round(1_000 * self.matching_base_us), round(1_000 * self.matching_each_us)
