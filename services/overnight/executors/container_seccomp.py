"""The system call filter of a container as the engine reads it: a list of what is allowed.

What stands in no group below is refused with EPERM. `seccomp.DENIED` names what must never get in
here; it is also the filter of the process sandbox, so that both refuse the same.
"""

from __future__ import annotations

import errno
import json
from collections.abc import Iterable
from typing import Any

from overnight.executors.seccomp import FAMILIES, NEW_NAMESPACES

UNIX = 1  #: the only family with socket pairs

#: What a training run, its loaders, its compilers and its driver's library ask for. Names of both
#: architectures: the engine skips those that its machine or its libseccomp does not know.
ALLOWED: dict[str, str] = {
    "files and folders": """
        access chdir chmod chown close close_range copy_file_range creat dup dup2 dup3 faccessat
        faccessat2 fadvise64 fallocate fchdir fchmod fchmodat fchmodat2 fchown fchownat fcntl
        fdatasync fgetxattr flistxattr flock fremovexattr fsetxattr fstat fstatfs fsync ftruncate
        futimesat getcwd getdents getdents64 getxattr ioctl lchown lgetxattr link linkat listxattr
        llistxattr lremovexattr lseek lsetxattr lstat mkdir mkdirat mknod mknodat newfstatat open
        openat openat2 readahead readlink readlinkat removexattr rename renameat renameat2 rmdir
        setxattr stat statfs statx symlink symlinkat sync sync_file_range syncfs truncate umask
        unlink unlinkat utime utimensat utimes
    """,
    "reading, writing, waiting": """
        epoll_create epoll_create1 epoll_ctl epoll_ctl_old epoll_pwait epoll_pwait2 epoll_wait
        epoll_wait_old eventfd eventfd2 inotify_add_watch inotify_init inotify_init1
        inotify_rm_watch io_cancel io_destroy io_getevents io_pgetevents io_setup io_submit pipe
        pipe2 poll ppoll pread64 preadv preadv2 pselect6 pwrite64 pwritev pwritev2 read readv
        select sendfile signalfd signalfd4 splice tee vmsplice write writev
    """,
    "memory": """
        brk cachestat get_mempolicy madvise map_shadow_stack mbind memfd_create memfd_secret
        mincore mlock mlock2 mlockall mmap mprotect mremap mseal msync munlock munlockall munmap
        pkey_alloc pkey_free pkey_mprotect remap_file_pages set_mempolicy
        set_mempolicy_home_node
    """,
    "processes and threads": """
        arch_prctl capget capset execve execveat exit exit_group fork futex futex_requeue
        futex_wait futex_waitv futex_wake get_robust_list get_thread_area getcpu getegid geteuid
        getgid getgroups getpgid getpgrp getpid getppid getpriority getresgid getresuid
        getrlimit getrusage getsid gettid getuid ioprio_get ioprio_set membarrier pidfd_open
        pidfd_send_signal prctl prlimit64 restart_syscall rseq sched_get_priority_max
        sched_get_priority_min sched_getaffinity sched_getattr sched_getparam
        sched_getscheduler sched_rr_get_interval sched_setaffinity sched_setattr
        sched_setparam sched_setscheduler sched_yield set_robust_list set_thread_area
        set_tid_address setfsgid setfsuid setgid setgroups setpgid setpriority setregid
        setresgid setresuid setreuid setrlimit setsid setuid sysinfo times uname vfork wait4
        waitid
    """,
    "signals and time": """
        alarm clock_getres clock_gettime clock_nanosleep getitimer gettimeofday kill nanosleep
        pause rt_sigaction rt_sigpending rt_sigprocmask rt_sigqueueinfo rt_sigreturn
        rt_sigsuspend rt_sigtimedwait rt_tgsigqueueinfo setitimer sigaltstack tgkill time
        timer_create timer_delete timer_getoverrun timer_gettime timer_settime timerfd_create
        timerfd_gettime timerfd_settime tkill
    """,
    "between processes, on sockets that exist": """
        accept accept4 bind connect getpeername getsockname getsockopt listen mq_getsetattr
        mq_notify mq_open mq_timedreceive mq_timedsend mq_unlink msgctl msgget msgrcv msgsnd
        recvfrom recvmmsg recvmsg semctl semget semop semtimedop sendmmsg sendmsg sendto
        setsockopt shmat shmctl shmdt shmget shutdown
    """,
    "chance, and walls of a program's own": """
        getrandom landlock_add_rule landlock_create_ruleset landlock_restrict_self seccomp
    """,
}
_EVERY_FLAG_AS_IT_IS, _ASK = 0, 0xFFFFFFFF  #: of personality: the ordinary one; which one is it?


def allowed() -> frozenset[str]:
    """All calls that pass, whatever their arguments."""
    return frozenset(name for names in ALLOWED.values() for name in names.split())


def profile() -> dict[str, Any]:
    """The filter in the engine's own format; its default is EPERM."""
    everything = [
        _rule(sorted(names.split()), "SCMP_ACT_ALLOW", comment=group)
        for group, names in ALLOWED.items()
    ]
    return {
        "defaultAction": "SCMP_ACT_ERRNO",
        "archMap": [
            {"architecture": architecture, "subArchitectures": []}  # no second ABI
            for architecture in ("SCMP_ARCH_X86_64", "SCMP_ARCH_AARCH64")
        ],
        "syscalls": [
            *everything,
            _rule(
                ["clone"],
                "SCMP_ACT_ALLOW",
                argument=_compare("SCMP_CMP_MASKED_EQ", NEW_NAMESPACES, 0),
                comment="threads and children, no new namespace",
            ),
            _rule(
                ["clone3"],
                "SCMP_ACT_ERRNO",
                errno_ret=errno.ENOSYS,
                comment="its flags lie behind a pointer: libc falls back to clone",
            ),
            *(
                _rule(["personality"], "SCMP_ACT_ALLOW", argument=_compare("SCMP_CMP_EQ", value))
                for value in (_EVERY_FLAG_AS_IT_IS, _ASK)
            ),
            *_families("socket", FAMILIES),
            *_families("socketpair", (UNIX,)),
        ],
    }


def profile_text() -> str:
    """The filter as the JSON text that the engine takes as `seccomp=...`."""
    return json.dumps(profile(), indent=2) + "\n"


def _families(call: str, passed: Iterable[int]) -> list[dict[str, Any]]:
    """*passed* families of sockets are there, all others are said not to exist.

    Two comparisons of one argument in a rule would mean "or", so each value has its rule.
    """
    wanted = sorted(passed)
    others = [family for family in range(wanted[-1]) if family not in wanted]
    refused = [_compare("SCMP_CMP_EQ", family) for family in others]
    refused.append(_compare("SCMP_CMP_GT", wanted[-1]))
    return [
        *(
            _rule([call], "SCMP_ACT_ALLOW", argument=_compare("SCMP_CMP_EQ", family))
            for family in wanted
        ),
        *(
            _rule([call], "SCMP_ACT_ERRNO", argument=argument, errno_ret=errno.EAFNOSUPPORT)
            for argument in refused
        ),
    ]


def _compare(operation: str, value: int, masked: int | None = None) -> dict[str, Any]:
    """A condition on the first argument; with *masked*, on its bits in *value*."""
    condition: dict[str, Any] = {"index": 0, "value": value, "op": operation}
    return condition if masked is None else condition | {"valueTwo": masked}


def _rule(
    names: list[str],
    action: str,
    *,
    argument: dict[str, Any] | None = None,
    errno_ret: int | None = None,
    comment: str | None = None,
) -> dict[str, Any]:
    rule: dict[str, Any] = {"names": names, "action": action}
    if errno_ret is not None:
        rule["errnoRet"] = errno_ret
    if argument is not None:
        rule["args"] = [argument]
    if comment is not None:
        rule["comment"] = comment
    return rule
