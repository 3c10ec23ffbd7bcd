"""A process for tests of generations: it records the orders that modules give it, and does nothing else."""

from __future__ import annotations

from runnel.modules.generations.questions import OpenGeneration


class FakeProcess:
    """Stands in for the node that hosts the brokers of two generations."""

    def __init__(self) -> None:
        self.settled = 1
        self.opened: list[OpenGeneration] = []
        self.closed: list[int] = []
        self.receives_in = 1

    def open(self, order: OpenGeneration) -> None:
        """Record the order; tests start brokers themselves."""
        self.opened.append(order)

    def close(self, generation: int) -> None:
        """Record the generation; tests stop brokers themselves."""
        self.closed.append(generation)

    def receive_in(self, generation: int) -> None:
        """Record which generation new connections get."""
        self.receives_in = generation
