"""ONNX's checker and ONNX Runtime's logits, the judges of test_onnx_runtime.c.

Usage: onnx_runtime.py MODEL.onnx LOGITS SAMPLES. LOGITS is a file of raw f32, and each input is read
from one of its name. Prints what the model says about itself. Exits with 77 when onnx or onnxruntime
is missing.
"""
import sys

try:
    import numpy as np
    import onnx
    import onnxruntime
except ImportError as error:
    print("skipped:", error)
    sys.exit(77)


def main(path, logits, samples):
    onnx.checker.check_model(path, full_check=True)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    (made,) = session.get_outputs()
    inputs = {}
    for given in session.get_inputs():
        print("input", given.name, given.shape, given.type)
        assert given.shape[0] == "batch", "the batch has a fixed size"
        values = np.fromfile(given.name, {"tensor(int32)": np.int32}.get(given.type, np.float32))
        inputs[given.name] = values.reshape(int(samples), *given.shape[1:])
    print("output", made.name, made.shape, made.type)
    for key, value in sorted(session.get_modelmeta().custom_metadata_map.items()):
        print("metadata", key, value)
    assert made.shape[0] == "batch", "the batch has a fixed size"
    y = np.fromfile(logits, np.float32).reshape(int(samples), *made.shape[1:])
    spread = abs(y - y[0]).max()
    bound = 1e-4 * max(1, abs(y).max())
    print(f"spread {spread:.3g}")
    assert spread >= 100 * bound, "the logits tell no images apart, and nothing is compared"
    for count in (len(y), 1):  # any batch
        found = session.run(["logits"], {name: x[:count] for name, x in inputs.items()})[0]
        distance = abs(found - y[:count]).max()
        print(f"{count} samples: logits up to {abs(y).max():.3g}, distance {distance:.1e}")
        assert distance <= bound, f"more than {bound:.1e}"


main(*sys.argv[1:])
