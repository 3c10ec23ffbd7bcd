"""For tests of programs that use Runnel: a network in memory, a fixture for pytest, a proxy that breaks connections."""
