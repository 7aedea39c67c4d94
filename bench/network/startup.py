"""How long a job of 2 x 2 ranks takes to start: from exec of the launchers to the end of the first step of a small
network, and to the end of a job that only makes this step."""
import os, sys, tempfile, time

import hosts, jobs, report


def start_up(args, site):
    with tempfile.TemporaryDirectory() as folder:
        begun, first = time.perf_counter(), None
        running = jobs.start(args, site, 2, ["train", "--data", "synthetic", "--arch", "mlp", "--threads", "1",
                                             "--batch-size", "120", "--max-steps", "1", "--output", folder])
        while any(launcher.poll() is None for launcher in running):
            if first is None and jobs.steps(folder):
                first = time.perf_counter() - begun
            time.sleep(0.002)
        if any(launcher.returncode for launcher in running):
            sys.exit("the job failed:\n" + "\n".join(launcher.stdout.read() for launcher in running))
        whole = time.perf_counter() - begun
    return first or whole, whole


def measure(args, site):
    start_up(args, site)  # into the page cache
    repeats = args.repeats or 5
    times = [start_up(args, site) for _ in range(repeats)]
    hosts.progress(f"start-up: {times}")
    rows = {"first step": [first for first, _ in times], "whole job": [whole for _, whole in times]}
    return report.result("network_startup", {"hosts": site.count, "ranks": 2, "repeats": repeats}, rows, args.build,
                         args.python)
