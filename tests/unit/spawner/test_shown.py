"""Where a mount of a container really lies, by what the kernel says of both sides."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from overnight.spawner.shown import HOST, Mount, mounts_of, outside

DISK, BIG = "254:0", "254:16"
PLAIN = (Mount(DISK, "/", "/"), Mount(BIG, "/", "/data"))
SUBVOLUMES = (Mount(DISK, "/@", "/"), Mount(DISK, "/@data", "/data"))


@pytest.mark.parametrize(
    ("host", "shown"),
    [
        (PLAIN, Mount(BIG, "/set", "/data/set")),
        (PLAIN, Mount(BIG, "/", "/data/set")),
        (SUBVOLUMES, Mount(DISK, "/@data/set", "/data/set")),
        ((Mount(DISK, "/", "/"),), Mount(DISK, "/data/set", "/data/set")),
    ],
)
def test_what_lies_below_a_listed_place_is_shown(host: Sequence[Mount], shown: Mount) -> None:
    assert outside([shown], host, ["/data/set"], ["/data"]) is None


@pytest.mark.parametrize(
    ("host", "shown"),
    [
        (PLAIN, Mount(DISK, "/etc", "/data/set")),
        (PLAIN, Mount(DISK, "/data/set", "/data/sets")),
        (PLAIN, Mount("0:99", "/", "/data/set")),
        (SUBVOLUMES, Mount(DISK, "/@/etc", "/data/set")),
        (SUBVOLUMES, Mount(DISK, "/@data2/set", "/data/set")),
    ],
)
def test_a_link_that_leads_elsewhere_is_found(host: Sequence[Mount], shown: Mount) -> None:
    assert outside([shown], host, ["/data/set"], ["/data"]) == "/data/set"


def test_the_last_mount_at_a_place_counts() -> None:
    mounts = [Mount(BIG, "/set", "/data/set"), Mount(DISK, "/etc", "/data/set")]

    assert outside(mounts, PLAIN, ["/data/set"], ["/data"]) == "/data/set"


def test_the_hosts_mounts_can_be_read() -> None:
    assert any(mount.place == "/" for mount in mounts_of(HOST))
