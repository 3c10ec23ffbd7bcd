"""Test a program that publishes or subscribes: the fixture `runnel_network` is a network of three brokers in memory.

Run `pytest test_quotes.py`; the fixture comes with Runnel, and no broker need be started.
"""


def test_quotes_arrive(runnel_network):
    with runnel_network.connect_blocking("B1") as a, runnel_network.connect_blocking("B3") as b:
        quotes = b.subscribe("symbol = 'YHOO'")
        a.advertise("symbol = 'YHOO'").publish({"symbol": "YHOO", "close": 18.37})
        assert quotes.get(timeout=5)["close"] == 18.37
