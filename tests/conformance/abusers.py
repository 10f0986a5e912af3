"""Programs for `abuse_suite`. Each prints what it met, so that a test can compare it."""

from __future__ import annotations

#: Everybody forks until nobody can.
FORK_BOMB = """
import errno, os, time

told = False
while True:
    try:
        os.fork()
    except OSError as error:
        if not told:
            os.write(1, errno.errorcode[error.errno].encode() + b"\\n")
        told = True
        time.sleep(0.1)
"""

#: Takes memory in its first process until it is ended.
MEMORY_BOMB = """
import os
hold = []
while True:
    hold.append(bytearray(os.urandom(1 << 20)) * 8)
"""

#: Deaf to all that can be ignored, and busy.
DEAF = """
import signal, time

for number in range(1, signal.NSIG):
    try:
        signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError):
        pass
for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
    signal.raise_signal(number)
print("deaf", flush=True)
while True:
    pass
"""

#: Every folder that takes a file, one a line. None does on a file system that is read-only.
WRITABLE = """
import os


def takes_a_file(folder):
    name = os.path.join(folder, "probe")
    try:
        open(name, "w").close()
        os.unlink(name)
        return True
    except OSError:
        return False


mounts = [line.split(" ") for line in open("/proc/self/mountinfo")]
places = {words[4] for words in mounts}
kinds = {words[4]: words[words.index("-") + 1] for words in mounts}
for place in sorted(places):
    try:
        if kinds[place] == "proc" or os.statvfs(place).f_flag & os.ST_RDONLY:
            continue
    except OSError:
        pass
    for folder, names, _ in os.walk(place):
        names[:] = [name for name in names if os.path.join(folder, name) not in places]
        if takes_a_file(folder):
            print(folder)
            names.clear()
"""

#: Ways to change a clock, then to change what its own programs take for one.
CLOCKS = """
import ctypes, errno, os, sys, time

libc = ctypes.CDLL(None, use_errno=True)
x86 = os.uname().machine == "x86_64"
change = (ctypes.c_char * 512)(1)  # struct timex: modes = ADJ_OFFSET
pair = (ctypes.c_long * 2)(1, 0)
for name, number, words in (
    ("settimeofday", 164 if x86 else 170, (pair, None)),
    ("clock_settime", 227 if x86 else 112, (0, pair)),
    ("adjtimex", 159 if x86 else 171, (change,)),
    ("clock_adjtime", 305 if x86 else 266, (0, change)),
):
    bad = libc.syscall(ctypes.c_long(number), *words) < 0
    print(name, errno.errorcode[ctypes.get_errno()] if bad else "done")
print(sorted(name for name in os.listdir("/dev") if name.startswith("rtc")), flush=True)
if "LD_PRELOAD" not in os.environ:
    os.environ["LD_PRELOAD"] = "/w/clock.so"
    time.sleep(0.5)
    os.execv(sys.executable, [sys.executable, *sys.argv])
"""

#: Reads and stops a process of its own, and the first one.
TRACER = """
import ctypes, errno, os, signal, time

libc = ctypes.CDLL(None, use_errno=True)
x86 = os.uname().machine == "x86_64"
child = os.fork()
if child == 0:
    time.sleep(60)
handle = os.pidfd_open(child)
for pid in (child, 1):
    for name, number, words in (
        ("attach", 101 if x86 else 117, (16, pid, 0, 0)),
        ("seize", 101 if x86 else 117, (0x4206, pid, 0, 0)),
        ("process_vm_readv", 310 if x86 else 270, (pid, 0, 0, 0, 0, 0)),
        ("process_vm_writev", 311 if x86 else 271, (pid, 0, 0, 0, 0, 0)),
        ("kcmp", 312 if x86 else 272, (pid, pid, 0, 0, 0)),
        ("pidfd_getfd", 438, (handle, 0, 0)),
    ):
        bad = libc.syscall(*[ctypes.c_long(n) for n in (number, *words)]) < 0
        print(name, errno.errorcode[ctypes.get_errno()] if bad else "done")
os.kill(child, signal.SIGKILL)
"""

#: Signals for processes of the host, by the numbers that they have there.
SNIPER = """
import errno, os, sys

for pid in map(int, sys.argv[1].split(",")):
    for name, shoot in (
        ("kill", lambda: os.kill(pid, 9)),
        ("killpg", lambda: os.killpg(pid, 9)),
        ("pidfd", lambda: os.pidfd_open(pid)),
    ):
        try:
            shoot()
            print(name, "done")
        except OSError as error:
            print(name, errno.errorcode[error.errno])
"""

#: All that /proc tells of anybody, searched for words; one line a find.
SPY = """
import glob, os, sys

words = sys.argv[1].split(",")
here = sys.argv[1].encode()
for pattern in ("environ", "cmdline", "mountinfo", "maps", "net/unix", "cgroup"):
    for path in glob.glob("/proc/*/" + pattern) + glob.glob("/proc/*/task/*/" + pattern):
        try:
            with open(path, "rb") as file:
                text = file.read().replace(here, b"")
        except OSError:
            continue
        for word in words:
            if word.encode() in text:
                print("found", words.index(word), path)
print("searched", len(glob.glob("/proc/[0-9]*")), flush=True)
"""

#: Doors that a network namespace does not close by itself.
ODD_SOCKETS = """
import errno, socket, struct

NEW_LINK, NEW_ADDRESS, NEW_ROUTE = 16, 20, 24


def answer(kind, payload):
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as line:
        line.settimeout(5)
        line.send(struct.pack("=IHHII", 16 + len(payload), kind, 0x605, 1, 0) + payload)
        code = struct.unpack_from("=i", line.recv(4096), 16)[0]
        return errno.errorcode.get(-code, code)


def make(*words):
    try:
        socket.socket(*words).close()
        return "made"
    except OSError as error:
        return errno.errorcode[error.errno]


print("new link", answer(NEW_LINK, struct.pack("=BxHiII", 0, 0, 0, 1, 1)))
local = b"\\x08\\0\\2\\0\\x0a\\0\\0\\1"
print("new address", answer(NEW_ADDRESS, struct.pack("=BBBBi", 2, 8, 0, 0, 1) + local))
print("new route", answer(NEW_ROUTE, struct.pack("=BBBBBBBBI", 2, 0, 0, 0, 254, 4, 0, 1, 0)))
print("packet", make(17, socket.SOCK_RAW))
print("raw", make(socket.AF_INET, socket.SOCK_RAW, 1))
print("vsock", make(40, socket.SOCK_STREAM))
print("alg", make(38, socket.SOCK_SEQPACKET))
print("bluetooth", make(31, socket.SOCK_RAW, 1))
"""

#: Every way to change data that is only shown.
DEFACER = """
import ctypes, errno, os, sys

libc = ctypes.CDLL(None, use_errno=True)
x86 = os.uname().machine == "x86_64"
MOUNT = 165 if x86 else 40
REMOUNT_BIND, PRIVATE = 32 | 4096, 1 << 18


def mount(target, flags):
    if libc.syscall(ctypes.c_long(MOUNT), None, target.encode(), None, ctypes.c_long(flags), None):
        raise OSError(ctypes.get_errno(), "mount")


for place in sys.argv[1].split(","):
    name = place + "/x"
    for word, act in (
        ("write", lambda: open(name, "r+b").write(b"mine")),
        ("append", lambda: open(name, "ab").close()),
        ("truncate", lambda: os.truncate(name, 0)),
        ("chmod", lambda: os.chmod(name, 0o777)),
        ("chmod the folder", lambda: os.chmod(place, 0o777)),
        ("chown", lambda: os.chown(name, os.getuid(), os.getgid())),
        ("utime", lambda: os.utime(name, (0, 0))),
        ("setxattr", lambda: os.setxattr(name, "user.mine", b"1")),
        ("unlink", lambda: os.unlink(name)),
        ("rename", lambda: os.rename(name, place + "/y")),
        ("new", lambda: open(place + "/new", "w").close()),
        ("link", lambda: os.link(name, place + "/z")),
        ("write through /proc", lambda: open("/proc/self/root" + name, "r+b").close()),
        ("remount", lambda: mount(place, REMOUNT_BIND)),
        ("own propagation", lambda: mount(place, PRIVATE)),
    ):
        try:
            act()
            print(word, "done")
        except OSError as error:
            print(word, errno.errorcode[error.errno])
"""

#: Ways out of /out for whoever collects it; then one honest file.
ESCAPES = """
import contextlib, os, stat, sys

os.chdir(os.environ["OVERNIGHT_OUT"])
secret = sys.argv[1]
for name, target in (("shadow", "/etc/shadow"), ("secret", secret), ("above", "../.."),
                     ("self", "/proc/self/root" + secret), ("fds", "/proc/self/fd")):
    os.symlink(target, name)
for name, kind in (("null", 0o020666), ("disk", 0o060666)):
    with contextlib.suppress(OSError):
        os.mknod(name, kind, os.makedev(1, 3) if kind & stat.S_IFCHR else os.makedev(254, 0))
        print("made", name)
with contextlib.suppress(OSError):
    os.link("/etc/passwd", "passwd")
    print("made passwd")
os.mkfifo("fifo")
for name in (b"..\\\\up", b"a\\\\..\\\\b", b"\\xff..", b".. ", b"x\\x1b[31m", b"y\\nz"):
    open(name, "w").close()
with contextlib.suppress(OSError):
    open(os.path.join(os.getcwd(), "..", "beside"), "w").close()
    print("made beside")
open("honest", "w").write("honest")
"""

#: Stops its timers, its holders, and whoever else has a number here.
STOPPER = """
import os, signal, time

os.kill(-1, signal.SIGSTOP)
print("stopped", flush=True)
time.sleep(600)
"""
