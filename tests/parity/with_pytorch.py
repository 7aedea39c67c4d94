"""Runs a script in a fork of a process that has imported PyTorch already.

Usage: with_pytorch.py SCRIPT [ARGUMENT...]. Importing PyTorch takes longer than most scripts
compute. The first script starts the server, which ends when none has come for IDLE_S. Each script
has a process of its own, as if the interpreter had run it: with its caller's arguments,
environment, folder, input and output. Its exit status is the caller's, and it is killed when the
caller ends before it. Where PyTorch is missing, the server has not imported it either, and the
script says so.
"""
import array
import errno
import json
import os
import select
import signal
import socket
import sys
import time

IDLE_S = 20
TRIES_S = 60
STARTED = b"started\n"
# Memory that earlier tensors have freed is used again; the system would have to clear other memory.
ALLOCATOR = {"MALLOC_MMAP_THRESHOLD_": str(2**31 - 1), "MALLOC_TRIM_THRESHOLD_": str(2**31 - 1)}
FOR_SERVER = ("PATH", "HOME", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "PYTHONPATH")


def address():
    """A name of abstract Unix sockets, for each user, interpreter and tree."""
    return f"\0yoke-test-pytorch-{os.getuid()}-{sys.executable}-{os.path.abspath(__file__)}"[:100]


# ---- the caller ----------------------------------------------------------------------------------

def start_server():
    environment = {name: os.environ[name] for name in FOR_SERVER if name in os.environ}
    if os.fork() == 0:
        os.setsid()
        null = os.open(os.devnull, os.O_RDWR)
        for fd in range(3):
            os.dup2(null, fd)
        os.closerange(3, 1024)
        command = [sys.executable, os.path.abspath(__file__), "--serve"]
        os.execve(sys.executable, command, {**environment, **ALLOCATOR})


def connect():
    """A connection to the server, which is started if there is none."""
    started = False
    deadline = time.monotonic() + TRIES_S
    while time.monotonic() < deadline:
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.connect(address())
            return connection
        except ConnectionRefusedError:
            connection.close()
            if not started:
                start_server()
            started = True
            time.sleep(0.01)
    sys.exit(f"with_pytorch.py: no server within {TRIES_S} s")


def call(request):
    """The exit status of the script, or None where the server ended before it took the request."""
    with connect() as connection:
        try:
            rights = array.array("i", range(3))
            connection.sendmsg([request], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
            connection.shutdown(socket.SHUT_WR)
            reply = b"".join(iter(lambda: connection.recv(64), b""))
        except OSError as error:
            if error.errno not in (errno.EPIPE, errno.ECONNRESET):
                raise
            return None
    if not reply:
        return None
    if reply == STARTED:
        sys.exit("with_pytorch.py: the server ended while the script ran")
    return int(reply[len(STARTED):])


def main(script, *arguments):
    request = {"argv": [os.path.abspath(script), *arguments], "folder": os.getcwd(),
               "environment": dict(os.environ)}
    code = None
    while code is None:
        code = call(json.dumps(request).encode())
    if code < 0:
        print(f"{script} was killed by signal {-code}", file=sys.stderr)
    sys.exit(code if code >= 0 else 128 - code)


# ---- the server ----------------------------------------------------------------------------------

def import_packages():
    for package in "torch", "torchvision", "torch.distributed", "torch.multiprocessing":
        try:
            __import__(package)
        except ImportError:
            pass


def receive(connection):
    """What the caller has sent, and its input and output."""
    fds = array.array("i")
    text, rights, _, _ = connection.recvmsg(65536, socket.CMSG_SPACE(3 * fds.itemsize))
    for _, _, data in rights:
        fds.frombytes(data)
    text += b"".join(iter(lambda: connection.recv(65536), b""))
    return json.loads(text), fds


def become(request, fds):
    """Makes this process the script's, except for what it runs."""
    os.setsid()
    for target, fd in enumerate(fds):
        os.dup2(fd, target)
        os.close(fd)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.argv = request["argv"]
    sys.path[0] = os.path.dirname(sys.argv[0])


def watch(connection, script):
    """Waits for the script and tells its caller; kills it when the caller is gone."""
    ends = select.poll()
    ends.register(os.pidfd_open(script), select.POLLIN)
    ends.register(connection, 0)  # POLLHUP: the other side has closed it
    if all(event & select.POLLHUP for _, event in ends.poll()):
        os.killpg(script, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(script, 0)[1])
    try:
        connection.sendall(b"%d" % code)
    except OSError:
        pass  # nobody waits any more
    os._exit(0)


def serve():
    """Returns in the process of each script."""
    listener = socket.socket(socket.AF_UNIX)
    try:
        listener.bind(address())
    except OSError:
        os._exit(0)  # another server was faster
    listener.listen(64)
    listener.settimeout(IDLE_S)
    import_packages()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those that watch
    while True:
        try:
            connection, _ = listener.accept()
        except TimeoutError:
            os._exit(0)
        if os.fork() == 0:
            break
        connection.close()
    listener.close()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    request, fds = receive(connection)
    connection.sendall(STARTED)
    script = os.fork()
    if script:
        watch(connection, script)
    connection.close()
    become(request, fds)


if sys.argv[1:] == ["--serve"]:
    serve()
    import runpy
    runpy.run_path(sys.argv[0], run_name="__main__")
else:
    main(*sys.argv[1:])
