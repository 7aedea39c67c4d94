/**
 * @file
 * yoke: distributed data-parallel training in C. This header includes the whole API of programs;
 * backend.h and image_module.h are for modules.
 */
#ifndef YOKE_H
#define YOKE_H

#include <yoke/checkpoint.h>
#include <yoke/comm_hook.h>
#include <yoke/data.h>
#include <yoke/data_parallel.h>
#include <yoke/ddp.h>
#include <yoke/functional.h>
#include <yoke/graph.h>
#include <yoke/group.h>
#include <yoke/local_sgd.h>
#include <yoke/model.h>
#include <yoke/model_info.h>
#include <yoke/networks.h>
#include <yoke/nn.h>
#include <yoke/nn_init.h>
#include <yoke/onnx.h>
#include <yoke/operator.h>
#include <yoke/optim.h>
#include <yoke/profile.h>
#include <yoke/readers.h>
#include <yoke/report.h>
#include <yoke/scaler.h>
#include <yoke/schedule.h>
#include <yoke/status.h>
#include <yoke/store.h>
#include <yoke/system.h>
#include <yoke/tensor.h>
#include <yoke/tensor_file.h>
#include <yoke/train.h>
#include <yoke/transformer.h>
#include <yoke/transforms.h>
#include <yoke/zero.h>

#endif
