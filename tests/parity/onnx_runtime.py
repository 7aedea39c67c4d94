"""ONNX's checker and ONNX Runtime's logits, the judges of test_onnx_runtime.c.

Usage: onnx_runtime.py MODEL.onnx IMAGES LOGITS SAMPLES. The two files are raw f32. Prints what the
file says about itself. Exits with 77 when onnx or onnxruntime is missing.
"""
import sys

try:
    import numpy as np
    import onnx
    import onnxruntime
except ImportError as error:
    print("skipped:", error)
    sys.exit(77)


def main(path, images, logits, samples):
    onnx.checker.check_model(path, full_check=True)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    (given,), (made,) = session.get_inputs(), session.get_outputs()
    print("input", given.name, given.shape, given.type)
    print("output", made.name, made.shape, made.type)
    for key, value in sorted(session.get_modelmeta().custom_metadata_map.items()):
        print("metadata", key, value)
    assert given.shape[0] == made.shape[0] == "batch", "the batch has a fixed size"
    x = np.fromfile(images, np.float32).reshape(int(samples), *given.shape[1:])
    y = np.fromfile(logits, np.float32).reshape(int(samples), *made.shape[1:])
    bound = 1e-4 * max(1, abs(y).max())
    for count in (len(x), 1):  # any batch
        found = session.run(["logits"], {given.name: x[:count]})[0]
        distance = abs(found - y[:count]).max()
        print(f"{count} samples: logits up to {abs(y).max():.3g}, distance {distance:.1e}")
        assert distance <= bound, f"more than {bound:.1e}"


main(*sys.argv[1:])
