"""Bubblewrap's arguments follow from values alone."""

from __future__ import annotations

from dataclasses import replace

from overnight.executors.bubblewrap import (
    GATE,
    Descriptors,
    Freeze,
    Host,
    Layout,
    Tools,
    chain,
    freezes,
    options,
    outermost,
)

HOST = Host(
    trees=("/usr",), links=(("usr/bin", "/bin"),), files=("/etc/ld.so.cache",),
    network_files=("/etc/resolv.conf", "/etc/hosts"),
)  # fmt: skip
LAYOUT = Layout(
    host=HOST, uid=60600, disable_userns=False, reads=("/srv/data", "/srv/env"), work="/s/work",
    out="/s/out", env={"A": "1"}, network="none", tmp_bytes=1024,
    frozen=(Freeze("lib", "/s/work/lib", True), Freeze("lib/f", "/s/work/lib/f", False)),
)  # fmt: skip
FDS = Descriptors(status=3, block=4, seccomp=5, passwd=6, group=7, hosts=8)
TOOLS = Tools(
    bwrap="/usr/bin/bwrap", timeout="/usr/bin/timeout", setpriv="/usr/bin/setpriv",
    env="/usr/bin/env",
)  # fmt: skip


def test_root_s_sandbox_is_this_list() -> None:
    text = """
        --unshare-pid --unshare-ipc --unshare-uts --unshare-cgroup-try --unshare-net
        --die-with-parent --new-session --hostname sandbox --clearenv --setenv A 1
        --perms 0755 --dir /etc --ro-bind /usr /usr --symlink usr/bin /bin
        --ro-bind /etc/ld.so.cache /etc/ld.so.cache --perms 0644 --ro-bind-data 6 /etc/passwd
        --perms 0644 --ro-bind-data 7 /etc/group --perms 0644 --ro-bind-data 8 /etc/hosts
        --perms 1777 --size 1024 --tmpfs /tmp --perms 1777 --dir /tmp/home
        --perms 1777 --dir /tmp/tmp --perms 0755 --dir /srv --ro-bind /srv/data /srv/data
        --ro-bind /srv/env /srv/env --proc /proc --dev /dev
        --perms 1777 --size 1024 --tmpfs /dev/shm --remount-ro /dev
        --bind /s/work /w --bind /s/work/lib /w/lib --ro-bind /s/work/lib/f /w/lib/f
        --bind /s/out /out --chdir /w --json-status-fd 3 --block-fd 4 --seccomp 5
        --remount-ro / --cap-drop ALL --cap-add CAP_SETUID --cap-add CAP_SETGID
        --cap-add CAP_SETPCAP
    """
    assert options(LAYOUT, FDS) == tuple(text.split())


def test_an_ordinary_user_gets_a_user_namespace_and_no_capability() -> None:
    mine = options(replace(LAYOUT, uid=None, disable_userns=True), FDS)
    roots = options(LAYOUT, FDS)

    assert set(mine) - set(roots) == {"--unshare-user", "--disable-userns"}
    assert set(roots) - set(mine) == {"--cap-add", "CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP"}


def test_network_host_shares_the_network_and_shows_how_to_use_it() -> None:
    mine = options(replace(LAYOUT, network="host"), FDS)

    assert set(options(LAYOUT, FDS)) - set(mine) == {"--unshare-net", "8"}
    assert set(mine) - set(options(LAYOUT, FDS)) == {"/etc/resolv.conf"}


def test_a_granted_gpu_s_device_files_lie_in_a_dev_that_is_read_only_after() -> None:
    """Bound with --dev-bind, since a plain bind has nodev; not run on a GPU."""
    nodes = ("/dev/nvidiactl", "/dev/nvidia1", "/dev/nvidia-caps/nvidia-cap66")
    text = " ".join(options(replace(LAYOUT, nodes=nodes), FDS))

    assert (
        "--dev /dev --dev-bind-try /dev/nvidiactl /dev/nvidiactl "
        "--dev-bind-try /dev/nvidia1 /dev/nvidia1 --perms 0755 --dir /dev/nvidia-caps "
        "--dev-bind-try /dev/nvidia-caps/nvidia-cap66 /dev/nvidia-caps/nvidia-cap66" in text
    )
    assert text.index("nvidia-cap66") < text.index("--remount-ro /dev")
    assert "nvidia" not in " ".join(options(LAYOUT, FDS))


def test_the_second_timer_starts_before_the_user_changes() -> None:
    assert chain(LAYOUT, TOOLS, "t", ("python", "x")) == (
        "/bin/sh", "-c", GATE, "overnight-t", "/usr/bin/timeout", "/usr/bin/setpriv",
        "--reuid", "60600", "--regid", "60600", "--clear-groups", "--no-new-privs",
        "--bounding-set", "-all", "--inh-caps", "-all", "--ambient-caps", "-all", "--",
        "/usr/bin/env", "-u", "PWD", "-u", "OLDPWD", "-u", "SHLVL", "-u", "_", "python", "x",
    )  # fmt: skip


def test_folders_above_a_frozen_file_are_held_and_folders_freeze_what_is_below() -> None:
    sources = {p: f"/s/{p}" for p in ("a/b/f", "a/g", "d", "d/x", "top")}

    assert freezes("/s", sources) == (
        Freeze("a", "/s/a", True),
        Freeze("a/b", "/s/a/b", True),
        Freeze("a/b/f", "/s/a/b/f", False),
        Freeze("a/g", "/s/a/g", False),
        Freeze("d", "/s/d", False),
        Freeze("top", "/s/top", False),
    )


def test_a_name_that_only_begins_alike_is_not_inside() -> None:
    assert outermost(["/a/b", "/a/b/c", "/a/bc", "/a/b/"]) == ("/a/b", "/a/bc")
