"""A rank of PyTorch: sums over all ranks, after an end in the first attempt of a job that restarts."""
import datetime
import os

import torch
import torch.distributed as dist

dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=60))
total = torch.tensor(dist.get_rank() + 1)
dist.all_reduce(total)
if os.environ["TORCHELASTIC_RESTART_COUNT"] != os.environ["TORCHELASTIC_MAX_RESTARTS"]:
    raise SystemExit(7 if dist.get_rank() == 1 else 0)
print(f"rank {dist.get_rank()} of {dist.get_world_size()}: sum {total.item()}")
dist.destroy_process_group()
