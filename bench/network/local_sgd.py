"""Local SGD over a slow network, next to DDP with and without compressed gradients: `yoke train` of ResNet-18 (CIFAR
stem, f32, SGD with momentum), 64 images per rank, one rank on each of two hosts. The ways run in turn.

Images per second are those of the last 16 of 32 steps, in which rounds of local SGD are whole, with their averages.
"""
import datetime, json, os, sys, tempfile

import hosts, jobs, report

BATCH, STEPS = 64, 16
WAYS = {"DDP": [], "DDP, bf16": ["--comm-hook", "bf16"],
        "DDP, PowerSGD": ["--comm-hook", "powersgd", "--powersgd-start", "1"],
        "local SGD, 4 steps": ["--sync-every", "4"], "local SGD, 16 steps": ["--sync-every", "16"]}
RATES = ["none", "1gbit", "0.1gbit"]


def seconds_between(first, last):
    times = [datetime.datetime.fromisoformat(step["time"].replace("Z", "+00:00")) for step in (first, last)]
    return (times[1] - times[0]).total_seconds()


def train(args, site, options):
    """Kernels are prepared in the first half of the steps; the second half is whole rounds."""
    with tempfile.TemporaryDirectory() as folder:
        running = jobs.start(args, site, 1, ["train", "--data", "synthetic", "--arch", "resnet18-cifar", "--threads", "1",
                                             "--batch-size", str(site.count * BATCH), "--momentum", "0.9", "--lr", "0.01",
                                             "--max-steps", str(2 * STEPS), "--val-split", "0.01", "--output", folder,
                                             *options])
        outputs = [launcher.communicate()[0] for launcher in running]
        if any(launcher.returncode for launcher in running):
            sys.exit("the job failed:\n" + "\n".join(outputs))
        with open(os.path.join(folder, "metrics.jsonl")) as file:
            steps = [line for line in map(json.loads, file) if line["type"] == "step"]
    return STEPS * site.count * BATCH / seconds_between(steps[STEPS - 1], steps[2 * STEPS - 1])


def measure(args, site):
    repeats = args.repeats or 3
    rows = [{"rate": rate, "images_per_s": {way: [] for way in WAYS}} for rate in (RATES[:1] if args.quick else RATES)]
    for _ in range(repeats):
        for row in rows:
            site.limit(None if row["rate"] == "none" else row["rate"])
            for way, options in WAYS.items():
                row["images_per_s"][way].append(train(args, site, options))
                hosts.progress(f"{row['rate']}, {way}: {row['images_per_s'][way][-1]:.1f} images/s")
    site.limit(None)
    return report.result("network_local_sgd", {"hosts": site.count, "batch": BATCH, "repeats": repeats}, rows, args.build,
                         args.python)
