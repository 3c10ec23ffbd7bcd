"""Say what you are going to publish, and publish it, in an event loop.

Run `python publisher.py` beside subscriber.py, blocking.py or threads.py, at the same broker.
"""

import asyncio

import runnel


async def main():
    async with runnel.connect("runnel://127.0.0.1:7001", name="nasdaq") as client:
        quotes = await client.advertise("symbol = 'YHOO' AND close > 0")
        for close in (18.37, 21.50, 19.02):
            await quotes.publish({"symbol": "YHOO", "close": close})


asyncio.run(main())
