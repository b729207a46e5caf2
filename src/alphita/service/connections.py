"""Connections: how many there may be at once, and how long a client may leave the server waiting."""

from __future__ import annotations

import asyncio
import functools
import resource

from uvicorn.protocols.http.h11_impl import H11Protocol

# For a request's header, for the next request, and to take so many bytes of what is sent.
SECONDS = 10.0
LEAST_TAKEN = 65_536
MOST_CONNECTIONS = 2_048
BACKLOG = 512


@functools.cache
def room() -> tuple[int, int]:
    """Return how many connections may be open, and how many may be accepted at once, within the file descriptors."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    soft = MOST_CONNECTIONS * 2 if soft == resource.RLIM_INFINITY else soft
    return min(MOST_CONNECTIONS, soft // 2), min(BACKLOG, soft // 4)


class Connection(H11Protocol):
    """A connection that ends when its client leaves the server waiting.

    Where there are too many, the one that has been waited for longest makes room. uvicorn's own `limit_concurrency`
    would refuse whoever comes, and keep those that ask for nothing.
    """

    _limit: asyncio.TimerHandle | None = None
    _left = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a header."""
        super().connection_made(transport)
        self._watch()
        if len(self.connections) > room()[0]:
            waiting = [one for one in self.connections if isinstance(one, Connection) and one._limit is not None]
            min(waiting, key=lambda one: one._limit.when() if one._limit else 0.0)._end()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no longer."""
        super().connection_lost(exc)
        self._forget()

    def data_received(self, data: bytes) -> None:
        """Take a part of a request; one of a header gives no more time for the others."""
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        """Begin to wait for the next request."""
        super().on_response_complete()
        self._watch()

    def pause_writing(self) -> None:
        """Begin to wait for the client to take what was sent."""
        super().pause_writing()
        self._watch()

    def resume_writing(self) -> None:
        """Go on sending."""
        super().resume_writing()
        self._watch()

    def _watch(self) -> None:
        if self.cycle is not None and not self.cycle.response_complete and not self.flow.write_paused:
            self._forget()
        elif self._limit is None:
            self._left = self.transport.get_write_buffer_size()
            self._limit = self.loop.call_later(SECONDS, self._over)

    def _forget(self) -> None:
        if self._limit is not None:
            self._limit.cancel()
            self._limit = None

    def _over(self) -> None:
        self._forget()
        if self._left - self.transport.get_write_buffer_size() >= LEAST_TAKEN:
            self._watch()
        else:
            self._end()

    def _end(self) -> None:
        self._forget()
        # Closing it would wait until what was sent is taken.
        self.transport.abort()
