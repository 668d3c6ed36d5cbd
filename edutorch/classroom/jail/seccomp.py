"""Seccomp: the kernel refuses all system calls but those that computing in Python needs.

A list of what is allowed, so that what is not known is refused, also the calls of the x32 ABI,
which `seccompy` does not tell from those of x86-64. A refused call fails with EPERM: the student
sees `PermissionError`. There is no new process, no program, no socket, no signal to others, no
shared memory, and nothing that reads another process.
"""

from __future__ import annotations

import errno

ALLOWED = """
read write readv writev pread64 pwrite64 lseek close dup dup2 dup3 pipe pipe2 fcntl
open openat stat fstat lstat newfstatat statx access faccessat faccessat2 readlink readlinkat
getdents getdents64 getcwd chdir fchdir mkdir mkdirat rmdir unlink unlinkat rename renameat
renameat2 ftruncate truncate fsync fdatasync fadvise64 fallocate statfs fstatfs umask utimensat
poll ppoll select pselect6 epoll_create1 epoll_ctl epoll_wait epoll_pwait eventfd2
recvfrom sendto recvmsg sendmsg shutdown getsockopt setsockopt
munmap mremap mprotect madvise brk msync mincore
rt_sigaction rt_sigprocmask rt_sigreturn sigaltstack restart_syscall
futex set_robust_list get_robust_list rseq set_tid_address sched_yield
sched_getaffinity sched_getparam sched_getscheduler getcpu membarrier arch_prctl
clock_gettime clock_getres clock_nanosleep nanosleep gettimeofday time times
getitimer setitimer alarm getrandom getrusage getrlimit uname sysinfo
getpid getppid gettid getuid geteuid getgid getegid getgroups getresuid getresgid getpgrp
exit exit_group wait4 tgkill kill
""".split()

MAP_TYPE, MAP_PRIVATE = 0x0F, 0x02
CLONE_THREAD = 0x00010000
PR_SET_NAME, PR_SET_VMA = 15, 0x53564D41
TCGETS, FIONREAD, FIONBIO, FIOCLEX, FIONCLEX = 0x5401, 0x541B, 0x5421, 0x5451, 0x5450
MASKED_EQ = 6

_filters: list = []


def prepare() -> None:
    """Compile the filter, before the first fork."""
    from seccompy import Action, Filter, action_supported
    from seccompy.syscalls import syscall_nr

    rules = Filter(default=Action.ERRNO | errno.EPERM)
    for name in ALLOWED:
        try:
            syscall_nr(name)
        except (ValueError, KeyError, LookupError):
            continue  # aarch64 has no `open`, only `openat`
        rules.allow(name)
    rules.allow("clone", args=[(0, MASKED_EQ, CLONE_THREAD, CLONE_THREAD)])  # threads only
    rules.errno("clone3", errno.ENOSYS)  # its flags cannot be seen: libc then calls `clone`
    # Pages that are shared and not mapped are counted nowhere.
    rules.allow("mmap", args=[(3, MASKED_EQ, MAP_PRIVATE, MAP_TYPE)])
    rules.allow("prlimit64", args=[(2, 0, 0)])  # to read limits
    for option in (PR_SET_NAME, PR_SET_VMA):
        rules.allow("prctl", args=[(0, 0, option)])
    for request in (TCGETS, FIONREAD, FIONBIO, FIOCLEX, FIONCLEX):
        rules.allow("ioctl", args=[(1, 0, request)])
    assert rules.program  # compiles it
    action_supported(Action.ERRNO)  # loads libc by name, for which it runs a program
    _filters[:] = [rules]


def load_filter() -> None:
    """Refuse all other calls from now on, in this process and in all that it starts."""
    _filters[0].load()
