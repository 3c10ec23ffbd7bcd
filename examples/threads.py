"""One client that several threads share: each waits for a subscription of its own.

Start a broker with `runnel broker --name B1 --listen 127.0.0.1:7001`, and then `python threads.py`; it ends when each
of the two has got an event, as it does when publisher.py is run.
"""

from concurrent.futures import ThreadPoolExecutor

import runnel

FILTERS = ("symbol = 'YHOO' AND close < 20", "symbol = 'YHOO' AND close >= 20")


def note_gap(gap):
    """Events may have been lost on their way here, wherever it was: whoever needs them all asks for them elsewhere."""
    print("events may be missing:", gap)


with runnel.blocking.connect("runnel://127.0.0.1:7001", on_gap=note_gap) as client:

    def first_price(wanted):
        return client.subscribe(wanted).get()["close"]

    with ThreadPoolExecutor() as threads:
        for wanted, close in zip(FILTERS, threads.map(first_price, FILTERS), strict=True):
            print(wanted, "first at", close)
