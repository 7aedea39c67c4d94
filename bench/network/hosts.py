"""Hosts for benchmarks: network namespaces (tests/hosts/hosts says what they are)."""
import contextlib, os, subprocess, sys, tempfile, time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SCRIPT = os.path.join(ROOT, "tests/hosts/hosts")
DEADLINE_S = 300


def progress(line):
    print(line, file=sys.stderr, flush=True)


def come_first():
    """Where this is allowed, what is measured comes before other work of the machine. Its own threads still share their
    cores as always, because all of them have the same weight. Linux weighs the processes of a session together
    (autogroups), so they get a session of their own; the leader of a process group cannot have one."""
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, -20)
        if os.getsid(0) != os.getpid():
            os.setsid()
        with open("/proc/self/autogroup", "w") as file:
            file.write("-20")


def why_not():
    """Why hosts cannot be made here; empty if they can."""
    done = subprocess.run([SCRIPT, "check"], capture_output=True, text=True)
    return done.stdout.strip() if done.returncode else ""


class Hosts:
    """with Hosts(2) as hosts: ... Each host has an equal share of the cores, unless share_cores."""

    def __init__(self, count, share_cores=False):
        self.count = count
        cores = sorted(os.sched_getaffinity(0))
        share = max(1, len(cores) // count)
        self.cores = [cores if share_cores else cores[i * share % len(cores):][:share] for i in range(count)]

    def __enter__(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.folder = os.path.join(self.temporary.name, "hosts")
        self.maker = subprocess.Popen([SCRIPT, "make", self.folder, str(self.count)])
        while not os.path.exists(os.path.join(self.folder, "ready")):
            if self.maker.poll() is not None:
                sys.exit("the hosts cannot be made; see " + SCRIPT)
            time.sleep(0.01)
        self.call("ssh", self.folder)
        self.ssh = os.path.join(self.folder, "ssh")
        return self

    def __exit__(self, *_):
        self.maker.kill()
        self.maker.wait()
        self.temporary.cleanup()

    def call(self, *arguments):
        subprocess.run([SCRIPT, *arguments], check=True)

    def limit(self, rate):
        """Limits what each host sends: "1gbit"; None lifts the limit."""
        for host in range(self.count):
            if rate or self.limited:
                self.call("rate", self.folder, f"n{host + 1}", rate or "off")
        self.limited = rate is not None

    limited = False

    def sent(self, host):
        """The bytes that a host (from 0) has sent so far."""
        return int(subprocess.check_output([SCRIPT, "sent", self.folder, f"n{host + 1}"]))

    def on(self, host, command):
        """The command, run on a host (from 0) and its cores."""
        cores = ",".join(map(str, self.cores[host]))
        return [SCRIPT, "on", self.folder, f"n{host + 1}", "taskset", "-c", cores, *command]

    def start(self, host, command, env=None):
        """Starts a command on a host; its output is kept."""
        return subprocess.Popen(self.on(host, command), env=dict(os.environ, **(env or {})), text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def find(self, host, is_it):
        """The pid, here, of the process on a host for whose arguments and environment is_it is true."""
        def entries(path):
            with open(path, "rb") as file:
                return file.read().split(b"\0")

        with open(os.path.join(self.folder, f"n{host + 1}.pid")) as file:
            space = os.readlink(f"/proc/{file.read().strip()}/ns/pid")
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                if (os.readlink(f"/proc/{pid}/ns/pid") == space
                        and is_it(entries(f"/proc/{pid}/cmdline"), entries(f"/proc/{pid}/environ"))):
                    return int(pid)
            except OSError:  # it has ended meanwhile
                pass
        sys.exit(f"the process on n{host + 1} is not there")

    def run(self, local, command, env=None):
        """Runs command(rank) as `local` ranks on each host to their end; rank 0's output. Each rank has the
        environment that torchrun would give it."""
        world = self.count * local
        # Ports are not reused: the connections of the last run linger.
        Hosts.port += 1
        running = []
        for rank in range(world):
            place = {"RANK": rank, "WORLD_SIZE": world, "LOCAL_RANK": rank % local, "LOCAL_WORLD_SIZE": local,
                     "GROUP_RANK": rank // local, "MASTER_ADDR": "10.77.0.1", "MASTER_PORT": Hosts.port}
            environment = dict({name: str(value) for name, value in place.items()}, **(env or {}))
            running.append(self.start(rank // local, command(rank), environment))
        return self.collect(running)

    port = 29600

    def run_one(self, command, env=None):
        """Runs one command on the first host: a launcher that reaches the others itself."""
        environment = dict(os.environ, **(env or {}))
        return self.collect([subprocess.Popen([SCRIPT, "on", self.folder, "n1", *command], env=environment, text=True,
                                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)])

    def collect(self, running):
        end, outputs = time.monotonic() + DEADLINE_S, []
        try:
            for process in running:
                outputs.append(process.communicate(timeout=max(1, end - time.monotonic()))[0])
        except subprocess.TimeoutExpired:
            sys.exit(f"{' '.join(running[0].args)}: not done after {DEADLINE_S} s")
        finally:
            for process in running:
                process.kill()
        if any(process.returncode for process in running):
            sys.exit(f"{' '.join(running[0].args)} failed:\n" + "\n".join(outputs))
        return outputs[0]
