"""Ask for what you want by content, and read it as it comes, in an event loop.

Start a broker with `runnel broker --name B1 --listen 127.0.0.1:7001`, and then `python subscriber.py`.
"""

import asyncio

import runnel


async def main():
    async with runnel.connect("runnel://127.0.0.1:7001") as client:
        quotes = await client.subscribe("symbol = 'YHOO' AND close < 20")
        async for event in quotes:
            print(event["symbol"], event["close"], "from", event.publisher, "at", event.time)


asyncio.run(main())
