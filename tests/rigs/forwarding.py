"""A program that hands connections on: ``forwarding.py LISTEN TARGET [LISTEN TARGET …]``, addresses with ports."""

import asyncio
import contextlib
import sys

_AT_ONCE = 2**16


async def _pour(source: asyncio.StreamReader, into: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await source.read(_AT_ONCE):
            into.write(data)
            await into.drain()
    into.close()


async def _serve(listen: str, target: str) -> None:
    async def hand_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        host, _, port = target.rpartition(":")
        try:
            there, back = await asyncio.open_connection(host, int(port))
        except OSError:
            writer.close()
            return
        await asyncio.gather(_pour(reader, back), _pour(there, writer))

    host, _, port = listen.rpartition(":")
    server = await asyncio.start_server(hand_on, host, int(port))
    await server.serve_forever()


async def _main(words: list[str]) -> None:
    await asyncio.gather(*(_serve(*pair) for pair in zip(words[::2], words[1::2], strict=True)))


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1:]))
