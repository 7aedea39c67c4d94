"""Reads the event files of a folder with TensorBoard's own reader and prints what it finds."""
import sys

try:
    from tensorboard.backend.event_processing import event_accumulator as ea
    from tensorboard.plugins.hparams import metadata, plugin_data_pb2
except ImportError as error:
    print(error)
    sys.exit(77)

kinds = {ea.SCALARS: 0, ea.IMAGES: 0, ea.HISTOGRAMS: 0, ea.TENSORS: 0}
run = ea.EventAccumulator(sys.argv[1], size_guidance=kinds)
run.Reload()
tags = run.Tags()
for tag in tags["scalars"]:
    print("scalar", tag, *(f"{event.step}:{event.value:.6g}" for event in run.Scalars(tag)))
for tag in tags["images"]:
    image = run.Images(tag)[0]
    print("image", tag, f"{image.width}x{image.height}", image.encoded_image_string[1:4].decode())
for tag in tags["histograms"]:
    value = run.Histograms(tag)[0].histogram_value
    print("histogram", tag, value.num, value.min, value.max, value.sum, sum(value.bucket))
hparams = run.PluginTagToContent("hparams") if tags["tensors"] else {}
for content in hparams.values():
    data = plugin_data_pb2.HParamsPluginData.FromString(content)
    for name, value in sorted(data.session_start_info.hparams.items()):
        print("hparam", name, value.WhichOneof("kind"), getattr(value, value.WhichOneof("kind")))
    if data.HasField("session_end_info"):
        print("end", data.session_end_info.status)
