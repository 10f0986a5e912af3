"""Programs that the suites run in sandboxes: the nasty, the greedy and the curious."""

from __future__ import annotations

#: Six children that do not want to die; each carries the marker in its arguments.
NASTY = """
import os, signal, subprocess, sys, time

mark = sys.argv[1]
reader, writer = os.pipe()
born = f"import os, signal, subprocess, sys, time; os.write({writer}, b'.'); "
sleeper = born.replace("'", '"') + "time.sleep(600)"


def child(code):
    words = [sys.executable, "-I", "-S", "-c", born + code, mark]
    return subprocess.Popen(words, pass_fds=[writer])


def parent(more):
    words = f"[sys.executable, '-I', '-S', '-c', {sleeper!r}, sys.argv[1]]"
    return child(f"subprocess.Popen({words}, pass_fds=[{writer}]{more}); time.sleep(600)")


child("exec('while True: pass')")
parent("")
parent(", start_new_session=True")
child("os.fork() and os._exit(0); os.setsid(); os.fork() and os._exit(0); time.sleep(600)")
child("[signal.signal(s, signal.SIG_IGN) for s in (1, 2, 3, 15)]; time.sleep(600)")
child("os.close(1); os.close(2); time.sleep(600)")
for _ in range(8):
    os.read(reader, 1)
print("ready", flush=True)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
time.sleep(600)
"""

#: One process that sits there.
SLEEPER = "import time; print('ready', flush=True); time.sleep(600)"

#: Two workers that nobody waits for, so that no parent's account ever holds their CPU.
WORKERS = """
import os, signal, time

for _ in range(2):
    if os.fork() == 0:
        if os.fork() == 0:
            while True:
                pass
        os._exit(0)
time.sleep(600)
"""

#: Many short children of a parent that ignores them: they vanish from /proc uncounted.
SHORT_WORKERS = """
import os, signal, time

signal.signal(signal.SIGCHLD, signal.SIG_IGN)
while True:
    if os.fork() == 0:
        end = time.process_time() + 0.02
        while time.process_time() < end:
            pass
        os._exit(0)
    time.sleep(0.02)
"""

#: Answers every question of an attacker with one JSON line: name -> what happened.
PROBE = """
import ctypes, errno, glob, json, os, socket, sys, time

asked = json.loads(sys.argv[1])
libc = ctypes.CDLL(None, use_errno=True)
answers = {}


def ask(name, action):
    try:
        result = action()
        answers[name] = "ok" if result is None else f"ok: {result}"
    except OSError as error:
        answers[name] = errno.errorcode.get(error.errno, str(error))


def call(name, *arguments):
    def action():
        if libc.syscall(*[ctypes.c_long(a) for a in arguments]) < 0:
            raise OSError(ctypes.get_errno(), name)
    ask(name, action)


def connect(family, address, kind=socket.SOCK_STREAM):
    with socket.socket(family, kind) as client:
        client.settimeout(2)
        client.connect(address)
        if kind == socket.SOCK_DGRAM:
            client.send(b"out")


def environments():
    found = []
    for path in glob.glob("/proc/*/environ"):
        try:
            with open(path, "rb") as file:
                if asked["secret"].encode() in file.read():
                    found.append(path)
        except OSError:
            pass
    if not found:
        raise FileNotFoundError(errno.ENOENT, "in none")
    return found


def replace_parent():
    os.rename("/w/lib", "/w/lib2")
    os.mkdir("/w/lib")
    with open("/w/lib/harness.py", "w") as file:
        file.write("SCORE = 0")


for path in asked["unreadable"]:
    ask("read " + path, lambda: open(path, "rb").close())
    ask("list " + path, lambda: os.listdir(path))
for path in ("/w/lib/harness.py", "/w/frozen/a.py"):
    ask("write " + path, lambda: open(path, "a").close())
    ask("unlink " + path, lambda: os.unlink(path))
    ask("rename " + path, lambda: os.rename(path, "/w/moved"))
    ask("replace " + path, lambda: (open("/w/new", "w").close(), os.rename("/w/new", path))[1])
    ask("chmod " + path, lambda: os.chmod(path, 0o777))
ask("rename the frozen file's parent", replace_parent)
ask("rename the frozen folder", lambda: os.rename("/w/frozen", "/w/frozen2"))
ask("add to the frozen folder", lambda: open("/w/frozen/new.py", "w").close())
ask("write elsewhere", lambda: open("/usr/x", "w").close())
ask("write to root", lambda: open("/x", "w").close())
ask("make a device", lambda: os.mknod("/tmp/dev", 0o020666, os.makedev(1, 1)))
ask("file in /dev", lambda: open("/dev/x", "w").close())
ask("host tcp", lambda: connect(socket.AF_INET, ("127.0.0.1", asked["port"])))
ask("host abstract", lambda: connect(socket.AF_UNIX, "\\0" + asked["abstract"]))
ask("outside tcp", lambda: connect(socket.AF_INET, ("192.0.2.1", 80)))
ask("outside udp", lambda: connect(socket.AF_INET, ("192.0.2.1", 53), socket.SOCK_DGRAM))
ask("metadata", lambda: connect(socket.AF_INET, ("169.254.169.254", 80)))
ask("vsock", lambda: socket.socket(40, socket.SOCK_STREAM).close())
ask("secret in an environment", environments)
ask("environment of 1", lambda: open("/proc/1/environ", "rb").read().decode() or None)
ask("root of 1", lambda: os.listdir("/proc/1/root/etc") and None)
x86 = os.uname().machine == "x86_64"
call("ptrace", 101 if x86 else 117, 16, 1, 0, 0)
call("process_vm_readv", 310 if x86 else 270, 1, 0, 0, 0, 0, 0)
call("process_vm_writev", 311 if x86 else 271, 1, 0, 0, 0, 0, 0)
call("unshare", 272 if x86 else 97, 0x10000000)
call("clone", 56 if x86 else 220, 0x10000000 | 17, 0, 0, 0, 0)
call("mount", 165 if x86 else 40, 0, 0, 0, 0, 0)
call("keyctl", 250 if x86 else 219, 0, -1, 0)
call("io_uring", 425, 1, 0)
call("clock_settime", 227 if x86 else 112, 0, 0)
ask("kill 1", lambda: os.kill(1, 9))
ask("setuid 0", lambda: os.setuid(0) if os.getuid() else 1 / 0)
answers["interfaces"] = [name for _, name in socket.if_nameindex()]
ask("dns", lambda: socket.getaddrinfo("example.org", 80) and None)
answers["uid"] = os.getuid()
answers["pids"] = sorted(int(name) for name in os.listdir("/proc") if name.isdigit())
answers["fds"] = sorted(os.listdir("/proc/self/fd"))
print(json.dumps(answers), flush=True)
time.sleep(asked.get("linger", 0))
"""

#: Everything in /out that a collector must not take, beside two files that it must.
TRAPS = """
import os, socket

os.chdir(os.environ["OVERNIGHT_OUT"])

os.makedirs("good/deep", exist_ok=True)
open("good/deep/a.txt", "w").write("a" * 10)
open("b.bin", "wb").write(b"b" * 20)
os.symlink("/etc/passwd", "link")
os.symlink("/etc", "linked-folder")
os.symlink("..", "up")
os.mkfifo("fifo")
open("hard-1", "w").write("x")
os.link("hard-1", "hard-2")
socket.socket(socket.AF_UNIX).bind("socket")
open(b"odd-\\xff", "w").write("x")
open("odd\\nline", "w").write("x")
os.makedirs("" + "d/" * 40)
open("" + "d/" * 40 + "too-deep", "w").write("x")
with open("huge", "w") as file:
    file.truncate(10**9)
os.mkdir("closed")
open("closed/c", "w").write("c")
os.chmod("closed", 0)
"""

#: Changes whatever it can in its working directory.
VANDAL = """
import os, shutil
open("train.py", "a").write("# mine")
os.unlink("data/a.txt")
open("data/b.txt", "r+").write("B")
os.chmod("data", 0o700)
os.rename("data", "other")
"""

#: Fills the disk with files that are each small enough.
FILLS_FILES = """
import itertools, os, time
for number in itertools.count():
    folder = (".", os.environ["OVERNIGHT_OUT"])[number % 2]
    with open(f"{folder}/f{number}", "wb") as file:
        file.write(b"x" * (4 << 20))
    time.sleep(0.01 if number < 24 else 1)
"""

#: The same with files that have no name any more.
FILLS_UNLINKED = """
import os, time
held = []
for number in range(24):
    held.append(open("f", "wb"))
    held[-1].write(b"x" * (4 << 20))
    held[-1].flush()
    os.unlink("f")
time.sleep(600)
"""

#: The same where no path reaches.
FILLS_DEEP_DOWN = """
import os, time
for _ in range(40):
    os.mkdir("d" * 200)
    os.chdir("d" * 200)
    os.chmod(".", 0o700)
for number in range(24):
    with open(f"f{number}", "wb") as file:
        file.write(b"x" * (4 << 20))
time.sleep(600)
"""

#: Nothing but names.
FILLS_INODES = """
import time
for number in range(5000):
    open(f"f{number}", "w").close()
time.sleep(600)
"""

#: Leaves files of its own beside the tree's, and traps. Exits 0 whatever was refused.
LEAVES = """
import contextlib, os
os.makedirs("out/deep")
open("out/r.json", "w").write("{}")
open("out/deep/x", "w").write("x")
open("new", "w").write("n")
open("mixed/own", "w").write("o")
os.symlink("/etc/passwd", "link")
os.symlink("/etc", "out/etc")
os.mkfifo("out/fifo")
open("out/one", "w").write("1")
os.link("out/one", "out/twin")
for frozen in ("score.py", "data/a.txt", "data/b.txt", "mixed/frozen.txt"):
    with contextlib.suppress(OSError):
        open(frozen, "w").write("changed")
"""
