"""Programs that stay warm and answer in turn: each reads a problem from a line, and prints the ms of a run."""
import os, subprocess, sys

# What PyTorch gives back stays with its process.
TUNED = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1:glibc.malloc.mmap_threshold=8589934592:"
                           "glibc.malloc.trim_threshold=17179869184"}


class Server:
    """A program that answers each line with one."""

    def __init__(self, command, env=None):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env={**os.environ, **(env or {})})

    def ms(self, *words):
        self.process.stdin.write(" ".join(words) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            sys.exit(f"{self.process.args[0]} has ended at: {' '.join(words)}")
        return float(answer)

    def end(self):
        self.process.stdin.close()
        self.process.wait()
