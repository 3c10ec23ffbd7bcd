"""Subscribe without an event loop.

Start a broker with `runnel broker --name B1 --listen 127.0.0.1:7001`, and then `python blocking.py`.
"""

import runnel

with runnel.blocking.connect("runnel://127.0.0.1:7001") as client:
    for event in client.subscribe("symbol = 'YHOO'"):
        print(event)
