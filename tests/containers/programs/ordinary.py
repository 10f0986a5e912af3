"""What Python programs do all day, of the standard library alone."""

import asyncio
import concurrent.futures
import fcntl
import mmap
import multiprocessing
import os
import pathlib
import select
import signal
import socket
import sqlite3
import subprocess
import tempfile
import threading
import time
from multiprocessing import shared_memory


def child(pipe):
    pipe.send(os.getpid())


def main():
    for way in ("fork", "spawn", "forkserver"):
        context = multiprocessing.get_context(way)
        ours, theirs = context.Pipe()
        process = context.Process(target=child, args=(theirs,))
        process.start()
        assert ours.recv() == process.pid
        process.join()
        assert process.exitcode == 0
    with concurrent.futures.ProcessPoolExecutor(2) as pool:
        assert list(pool.map(abs, [-1, 2])) == [1, 2]
    seen = []
    threads = [threading.Thread(target=seen.append, args=(n,)) for n in range(32)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(seen) == 32
    shared = shared_memory.SharedMemory(create=True, size=1 << 20)
    shared.buf[0] = 7
    shared.close()
    shared.unlink()
    assert (
        subprocess.run(["sh", "-c", "echo a | cat"], capture_output=True, check=True).stdout
        == b"a\n"
    )

    async def talk():
        server = await asyncio.start_server(lambda r, w: w.write(b"x") or w.close(), "127.0.0.1", 0)
        host, port = server.sockets[0].getsockname()[:2]
        reader, writer = await asyncio.open_connection(host, port)
        assert await reader.read() == b"x"
        writer.close()
        server.close()
        process = await asyncio.create_subprocess_exec("true")
        assert await process.wait() == 0

    asyncio.run(talk())
    left, right = socket.socketpair()
    left.send(b"x")
    assert right.recv(1) == b"x"
    epoll = select.epoll()
    epoll.register(right)
    epoll.close()
    folder = pathlib.Path(tempfile.mkdtemp())
    (folder / "a").write_bytes(b"x" * 8192)
    os.link(folder / "a", folder / "b")
    os.symlink("a", folder / "c")
    os.mkfifo(folder / "d")
    os.posix_fallocate(os.open(folder / "a", os.O_RDWR), 0, 16384)
    with open(folder / "a", "r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
        fcntl.flock(file, fcntl.LOCK_EX)
        mapped[0] = 1
        os.fsync(file.fileno())
    sqlite3.connect(folder / "db").execute("create table t (a)")
    signal.signal(signal.SIGALRM, lambda *_: seen.append("alarm"))
    signal.setitimer(signal.ITIMER_REAL, 0.01)
    time.sleep(0.1)
    assert "alarm" in seen
    os.sched_setaffinity(0, os.sched_getaffinity(0))
    os.setpriority(os.PRIO_PROCESS, 0, 5)
    os.memfd_create("x")
    os.close(os.pidfd_open(os.getpid()))
    os.getrandom(8)
    print("all of it works")


if __name__ == "__main__":
    main()
