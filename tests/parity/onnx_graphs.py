"""ONNX's checker and ONNX Runtime's values, the judges of test_onnx_graphs.c.

Usage: onnx_graphs.py FIRST END SAMPLES. Graph N is the file N.onnx; its values, and each of its
inputs, are raw numbers in N.logits and in N and the input's name. Exits with 77 when onnx or
onnxruntime is missing.
"""
import sys

try:
    import numpy as np
    import onnx
    import onnxruntime
except ImportError as error:
    print("skipped:", error)
    sys.exit(77)


def distance(graph, samples):
    """The largest difference, relative to the largest value."""
    onnx.checker.check_model(f"{graph}.onnx", full_check=True)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(f"{graph}.onnx", options, providers=["CPUExecutionProvider"])
    inputs = {}
    for given in session.get_inputs():
        kind = np.int32 if given.type == "tensor(int32)" else np.float32
        inputs[given.name] = np.fromfile(f"{graph}.{given.name}", kind).reshape(samples, *given.shape[1:])
    y = np.fromfile(f"{graph}.logits", np.float32).reshape(samples, *session.get_outputs()[0].shape[1:])
    found = [session.run(["logits"], {name: x[:count] for name, x in inputs.items()})[0]
             for count in (samples, 1)]  # any batch
    largest = np.concatenate([abs(part - y[: len(part)]).ravel() for part in found]).max()
    return np.nan_to_num(largest / max(1e-3, abs(y).max()), nan=np.inf)


def main(first, end, samples):
    worst, graph = max((distance(graph, int(samples)), graph) for graph in range(int(first), int(end)))
    print(f"{int(end) - int(first)} graphs: {worst:.1e} of the largest value in graph {graph}")
    return 0 if worst <= 1e-3 else 1


sys.exit(main(*sys.argv[1:]))
