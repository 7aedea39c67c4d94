/**
 * @file
 * Networks as ONNX files, for programs that apply them without yoke: ONNX Runtime, OpenVINO,
 * TensorRT and others.
 */
#ifndef YOKE_ONNX_H
#define YOKE_ONNX_H

#include <yoke/model.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/**
 * Writes what yk_model_options.logits computes in evaluation mode, with its weights, as an ONNX
 * file (operator set 17), in which dropout is left out and mixed precision ignored. Its inputs have
 * the names of the model's; the output is called "logits". Where the model has YK_BATCH, the file
 * has the dimension "batch", of any size. The model's description (yk_model_set_info) becomes the
 * file's metadata: "class_names", "mean", "std", "transforms" and so on, in JSON unless it is one
 * text.
 *
 * The file is replaced atomically. YK_ERROR_INVALID_ARGUMENT for a model without options.logits,
 * and for one in which an input, parameter or buffer is called "logits" itself;
 * YK_ERROR_UNSUPPORTED for an operator that ONNX does not have, which the error names, and for a
 * network of 2 GiB or more, which no ONNX file can hold.
 */
yk_status yk_model_export_onnx(const yk_model *model, const char *path);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
