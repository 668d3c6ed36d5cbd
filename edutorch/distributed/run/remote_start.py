"""What mpirun calls in place of ssh: `remote_start.py SOCKET HOST COMMAND…`. Standard library only.

It hands the command to the launcher of this computer, through its socket in a private folder, and
stays until the daemon on the other computer has ended.
"""

import json
import sys
from multiprocessing.connection import Client


def main() -> int:
    """Ask for the daemon; return its exit code."""
    socket, host, *command = sys.argv[1:]
    with Client(socket, family="AF_UNIX") as launcher:
        launcher.send_bytes(json.dumps({"host": host, "command": command}).encode())
        try:
            return int(json.loads(launcher.recv_bytes(1024))["code"])
        except (EOFError, OSError):
            return 1


if __name__ == "__main__":
    raise SystemExit(main())
