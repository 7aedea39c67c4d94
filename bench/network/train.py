"""Data-parallel training over a network, next to PyTorch DDP with gloo: ResNet-18 (CIFAR stem, f32), 64 images per rank.

Two hosts; each has half of the cores, and its ranks share them. The programs run in turn. Exposed communication is
how much longer a step takes than the same step where every host trains without the others; both sides are measured
in this way. The ranks compute on the cores that also move the gradients, so it contains the processor time of the
exchange; what yoke reports (metrics.jsonl) is only how long it waits after backward. At a limited rate, hooks that compress
gradients are compared too; yoke's bf16 with PyTorch's fp16, since gloo does not sum bf16.

What a host sends in a step is counted at its interface, and how long backward takes is read from the timeline of a host
that trains without the others: no more than that can be hidden.
"""
import json, os, statistics, tempfile, threading, time

import hosts, jobs, report

HERE = os.path.dirname(os.path.abspath(__file__))
BATCH = 64
TUNED = ("glibc.malloc.hugetlb=1:glibc.malloc.mmap_threshold=8589934592:"
         "glibc.malloc.trim_threshold=17179869184")


def yoke_steps(metrics):
    """Seconds of the steps after two warm-up steps, and the exposed communication that yoke reports."""
    with open(metrics) as file:
        records = [record for record in map(json.loads, file) if record["type"] == "step"][2:]
    parts = ("data_s", "compute_s", "waiting_s", "exposed_comm_s")
    return {"step_s": [sum(r[part] for part in parts) for r in records],
            "reported_exposed_s": [r["exposed_comm_s"] for r in records]}


def backward_times(trace):
    """Seconds of the backward passes after two warm-up steps, on all ranks of a timeline."""
    with open(trace) as file:
        return [event["dur"] / 1e6 for event in json.load(file)
                if event["ph"] == "X" and event["name"] == "backward"]


def count_sent(site, folder, last, found):
    """Bytes that the first host sends in a step, from the end of the second step to that of the last one."""
    counted = {}
    while last not in counted and not found.get("over"):
        done = jobs.steps(folder)
        if done not in counted:
            counted[done] = site.sent(0)
        time.sleep(0.02)
    first = min((step for step in counted if step >= 2), default=last)
    if last in counted and last > first:
        found["sent"] = (counted[last] - counted[first]) / (last - first)


def train_yoke(site, args, local, hook, together):
    """together: the hosts train as one job; otherwise each host trains without the others."""
    with tempfile.TemporaryDirectory() as folder:
        def command(rank):
            ranks = site.count * local if together else local
            one = [os.path.join(os.path.abspath(args.build), "yoke"), "train", "--data", "synthetic", "--arch", "resnet18-cifar",
                   "--batch-size", str(BATCH * ranks), "--max-steps", str(args.steps + 2), "--threads", "1",
                   "--comm-hook", hook, *(["--powersgd-start", "2"] if hook == "powersgd" else []),
                   "--output", os.path.join(folder, "run" if together else f"run{rank // local}")]
            if not together:
                one = ["env", "-u", "RANK", "-u", "WORLD_SIZE"] + one + [
                    "--nproc", str(local), "--trace", os.path.join(folder, f"trace{rank // local}.json"),
                    "--trace-steps", f"3:{args.steps + 2}"]
            return one

        found = {}
        if not together:
            site.run(1, lambda rank: command(rank * local))
            found["backward_s"] = backward_times(os.path.join(folder, "trace0.json"))
            return {**yoke_steps(os.path.join(folder, "run0", "metrics.jsonl")), **found}
        run = os.path.join(folder, "run")
        counter = threading.Thread(target=count_sent, args=(site, run, args.steps + 2, found))
        counter.start()
        try:
            site.run(local, command)
        finally:
            found["over"] = True
            counter.join()
        found.pop("over")
        return {**yoke_steps(os.path.join(run, "metrics.jsonl")), **found}


def train_pytorch(site, args, local, hook, together):
    def command(rank):
        one = [args.python, os.path.join(HERE, "pytorch_train.py"), str(BATCH), str(args.steps), "1",
               "fp16" if hook == "bf16" else hook]
        # Without the others: a group of the host's own ranks, or none.
        if together:
            return one
        if local == 1:
            return ["env", "-u", "WORLD_SIZE"] + one
        return ["env", f"RANK={rank % local}", f"WORLD_SIZE={local}", f"MASTER_ADDR=10.77.0.{rank // local + 1}"] + one

    output = site.run(local, command, {"GLIBC_TUNABLES": TUNED, "GLOO_SOCKET_IFNAME": "eth0"})
    return json.loads([line for line in output.splitlines() if "{" in line][-1])


SIDES = {"yoke": train_yoke, "pytorch": train_pytorch}


def measure(args, site):
    rates, locals_ = (["none"], [1]) if args.quick else (["none", "1gbit"], [1, 2])
    settings = [(rate, local, hook) for rate in rates for local in locals_
                for hook in (["none"] if rate == "none" else ["none", "bf16", "powersgd"])]
    rows = [{"ranks": local, "rate": rate, "hook": hook, "yoke": [], "yoke_apart": [], "pytorch": [], "pytorch_apart": []}
            for rate, local, hook in settings]
    for _ in range(args.repeats or 3):
        for row in rows:
            site.limit(None if row["rate"] == "none" else row["rate"])
            measure_row(args, site, row, rows)
    site.limit(None)
    return report.result("network_train", {"hosts": site.count, "batch": BATCH, "steps": args.steps,
                                           "repeats": args.repeats or 3}, rows, args.build, args.python)


def measure_row(args, site, row, rows):
    """One repeat. Hosts that train apart send nothing, so that rates and hooks of one repeat share these steps."""
    for side, train in SIDES.items():
        row[side].append(train(site, args, row["ranks"], row["hook"], True))
    first = next(other for other in rows if other["ranks"] == row["ranks"])
    for side, train in SIDES.items():
        apart = first[side + "_apart"]
        if row is first:
            apart.append(train(site, args, row["ranks"], "none", False))
        else:
            row[side + "_apart"].append(apart[-1])
    hosts.progress(f"{row['ranks']} ranks, {row['rate']}, {row['hook']}: " + ", ".join(
        f"{side} {statistics.median(row[side][-1]['step_s']):.3f} s" for side in ("yoke", "yoke_apart", "pytorch",
                                                                                   "pytorch_apart")))
