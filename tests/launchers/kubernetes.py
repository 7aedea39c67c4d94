#!/usr/bin/env python3
"""What Kubernetes makes of a manifest of examples/kubernetes, for one of its pods.

usage: kubernetes.py MANIFEST INDEX RANKS_PER_POD

Prints a shell command: the environment and the command of the pod, with the arguments after `yoke train` left out,
and "auto" ranks per pod replaced, so that a test can train something small.
"""
import shlex, sys
import yaml


def pod_of_job(documents, index):
    """The indexed Job: its controller sets the completion index and the host names."""
    job = next(d for d in documents if d["kind"] == "Job")
    service = next(d for d in documents if d["kind"] == "Service")
    name, spec = job["metadata"]["name"], job["spec"]
    pod = spec["template"]["spec"]
    assert spec["completionMode"] == "Indexed" and spec["completions"] == spec["parallelism"]
    assert service["spec"]["clusterIP"] == "None" and service["spec"]["selector"] == {"job-name": name}
    assert pod["subdomain"] == service["metadata"]["name"]
    (container,) = pod["containers"]
    env = variables(container, {"metadata.annotations['batch.kubernetes.io/job-completion-index']": str(index)})
    assert int(env["PET_NNODES"]) == spec["completions"]
    assert env["PET_MASTER_ADDR"] == f"{name}-0.{pod['subdomain']}"
    return {"JOB_COMPLETION_INDEX": str(index), **env}, container["command"] + container["args"]


def pod_of_trainjob(documents, index):
    """The TrainJob: Trainer's torch plugin adds the PET_ variables (pkg/runtime/framework/plugins/torch)."""
    runtime = next(d for d in documents if d["kind"] == "TrainingRuntime")
    job = next(d for d in documents if d["kind"] == "TrainJob")
    assert job["spec"]["runtimeRef"]["name"] == runtime["metadata"]["name"]
    policy, trainer = runtime["spec"]["mlPolicy"], job["spec"]["trainer"]
    (node,) = runtime["spec"]["template"]["spec"]["replicatedJobs"]
    assert node["name"] == "node"
    assert node["template"]["metadata"]["labels"]["trainer.kubeflow.org/trainjob-ancestor-step"] == "trainer"
    (container,) = node["template"]["spec"]["template"]["spec"]["containers"]
    env = variables(container, {})
    assert not any(name.startswith("PET_") for name in env), "Trainer reserves these names"
    name = job["metadata"]["name"]
    env.update(PET_NNODES=str(trainer.get("numNodes", policy["numNodes"])),
               PET_NPROC_PER_NODE=str(policy["torch"]["numProcPerNode"]), PET_NODE_RANK=str(index),
               PET_MASTER_ADDR=f"{name}-node-0-0.{name}", PET_MASTER_PORT="29500")
    return env, trainer["command"] + trainer["args"]


def variables(container, fields):
    env = {}
    for variable in container["env"]:
        source = variable.get("valueFrom", {})
        if "fieldRef" in source:
            env[variable["name"]] = fields[source["fieldRef"]["fieldPath"]]
        elif "secretKeyRef" in source:
            env[variable["name"]] = "a-secret"
        else:
            env[variable["name"]] = variable["value"]
            assert isinstance(variable["value"], str), "Kubernetes takes text only"
    return env


def main():
    with open(sys.argv[1]) as file:
        documents = list(yaml.safe_load_all(file))
    index, ranks = int(sys.argv[2]), sys.argv[3]
    pod = pod_of_trainjob if any(d["kind"] == "TrainJob" for d in documents) else pod_of_job
    env, command = pod(documents, index)
    assert env["PET_NPROC_PER_NODE"] == "auto"
    env["PET_NPROC_PER_NODE"] = ranks
    command = command[:command.index("train") + 1]
    print("env", *(shlex.quote(f"{name}={value}") for name, value in env.items()), *map(shlex.quote, command))


main()
