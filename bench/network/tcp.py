#!/usr/bin/env python3
"""What TCP alone takes of the processor: two ranks send each other bytes over one connection, and do nothing with them.

usage: tcp.py BYTES EXCHANGES

This is a bound for what an exchange of gradients takes. Each rank sends and receives at the same time, on one thread,
which sleeps until a good part has come (as src/comm/tcp does). The place comes from the environment, as torchrun sets
it. Rank 0 prints the processor time of each exchange, in seconds.
"""
import contextlib, json, os, select, socket, sys, time

PIECE = 256 * 1024
WARM_UP = 5


def connect(rank, address):
    if rank == 0:
        with socket.create_server(address) as listener:
            return listener.accept()[0]
    while True:
        try:
            return socket.create_connection(address)
        except ConnectionRefusedError:  # rank 0 does not listen yet
            time.sleep(0.01)


def exchange(connection, out, into):
    """Sends all of out, and receives all of into."""
    ready, sent, received = select.poll(), 0, 0
    while sent < len(out) or received < len(into):
        moved = 0
        with contextlib.suppress(BlockingIOError):
            if sent < len(out):
                moved = connection.send(out[sent:])
                sent += moved
        with contextlib.suppress(BlockingIOError):
            if received < len(into):
                got = connection.recv_into(into[received:received + PIECE])
                received, moved = received + got, moved + got
        if moved == 0:
            awaited = min(PIECE, len(into) - received)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, max(1, awaited))
            ready.register(connection, select.POLLIN * (received < len(into)) | select.POLLOUT * (sent < len(out)))
            ready.poll()


def main():
    size, exchanges, rank = int(sys.argv[1]), int(sys.argv[2]), int(os.environ["RANK"])
    connection = connect(rank, (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setblocking(False)
    out, into, seconds = memoryview(bytearray(size)), memoryview(bytearray(size)), []
    for _ in range(WARM_UP + exchanges):
        begin = time.process_time()
        exchange(connection, out, into)
        seconds.append(time.process_time() - begin)
    if rank == 0:
        print(json.dumps(seconds[WARM_UP:]))


main()
