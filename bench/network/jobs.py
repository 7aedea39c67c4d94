"""Jobs of `yoke run` on all hosts of a site: one launcher on each, and n1 serves the rendezvous."""
import json, os

import hosts


def start(args, site, local, program):
    """Starts the program as `local` ranks on each host; the launchers, by host."""
    hosts.Hosts.port += 1
    yoke = os.path.join(os.path.abspath(args.build), "yoke")
    command = [yoke, "run", "--nnodes", str(site.count), "--nproc-per-node", str(local), "--no-pin", "--rdzv-endpoint",
               f"10.77.0.1:{hosts.Hosts.port}", "--", yoke, *program]
    return [site.start(host, command, {"YOKE_SECRET": "benchmark"}) for host in range(site.count)]


def steps(folder):
    """How many steps a training has recorded so far."""
    try:
        with open(os.path.join(folder, "metrics.jsonl")) as file:
            lines = [line for line in file if line.endswith("\n")]
    except FileNotFoundError:
        return 0
    return sum(json.loads(line)["type"] == "step" for line in lines)
