"""How long a training on 2 x 2 ranks takes to end after a fault: until the launchers of the hosts that are left have
ended, with all their ranks. Lost hosts are noticed after YOKE_HEARTBEAT_TIMEOUT (5 s), late ranks after --timeout."""
import os, signal, subprocess, sys, tempfile, time

import hosts, jobs, report

TIMEOUT_S, DEADLINE_S = 10, 60


def rank_3(site):
    return site.find(1, lambda arguments, environment: b"RANK=3" in environment and b"train" in arguments)


def launcher(site, host):
    return site.find(host, lambda arguments, environment: arguments[1:2] == [b"run"])


# Name: what happens (n2 is host 1), and the hosts that are left.
FAULTS = {
    "SIGKILL of a rank": (lambda site: os.kill(rank_3(site), signal.SIGKILL), (0, 1)),
    "SIGSTOP of a rank": (lambda site: os.kill(rank_3(site), signal.SIGSTOP), (0, 1)),
    "SIGKILL of a host's launcher": (lambda site: os.kill(launcher(site, 1), signal.SIGKILL), (0,)),
    "SIGKILL of the launcher that serves the store": (lambda site: os.kill(launcher(site, 0), signal.SIGKILL), (1,)),
    "power cut of a host": (lambda site: site.call("kill", site.folder, "n2"), (0,)),
    "power cut of the store's host": (lambda site: site.call("kill", site.folder, "n1"), (1,)),
    "cut cable, both sides": (lambda site: site.call("cut", site.folder, "n2"), (0, 1)),
}


def seconds_to_end(args, name):
    inject, left = FAULTS[name]
    with hosts.Hosts(2) as site, tempfile.TemporaryDirectory() as folder:
        running = jobs.start(args, site, 2, ["train", "--data", "synthetic", "--arch", "mlp", "--threads", "1",
                                             "--batch-size", "120", "--epochs", "1000000", "--timeout", str(TIMEOUT_S),
                                             "--output", folder])
        try:
            wait_for(lambda: jobs.steps(folder) >= 3, running)
            time.sleep(0.2)
            inject(site)
            begun = time.perf_counter()
            for host in left:
                running[host].communicate(timeout=DEADLINE_S)
            return time.perf_counter() - begun
        except subprocess.TimeoutExpired:
            sys.exit(f"{name}: the job has not ended after {DEADLINE_S} s")
        finally:
            for process in running:
                process.kill()


def wait_for(is_so, running):
    end = time.monotonic() + DEADLINE_S
    while not is_so():
        if time.monotonic() > end or any(process.poll() is not None for process in running):
            sys.exit("the training does not start:\n" + "\n".join(process.communicate()[0] for process in running))
        time.sleep(0.01)


def measure(args):
    names = list(FAULTS)[:1] if args.quick else list(FAULTS)
    rows, repeats = {name: [] for name in names}, args.repeats or 3
    for _ in range(repeats):
        for name in names:
            rows[name].append(seconds_to_end(args, name))
            hosts.progress(f"{name}: {rows[name][-1]:.2f} s")
    return report.result("network_faults", {"timeout_s": TIMEOUT_S, "repeats": repeats}, rows, args.build, args.python)
