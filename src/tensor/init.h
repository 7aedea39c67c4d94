/* The first values of a tensor. */
#ifndef YKI_INIT_H
#define YKI_INIT_H

#include <yoke/graph.h> /* yk_init */

#include "base/error.h"
#include "base/random.h"

/*
 * Fills tensor as init says, drawing from generator in the order of the elements, as torch.nn.init
 * does from a seeded generator: for f32 to the bit (see box_muller.h), except for normal draws of
 * fewer than 16 elements, which differ by the C library's log and cosine.
 * An f64 tensor gets the same draws, so that two models that differ in dtype start alike. fan is
 * used by YK_INIT_UNIFORM_FAN_IN alone. Random draws for other dtypes are YK_ERROR_UNSUPPORTED.
 */
yk_status yki_init_tensor(yki_mt19937 *generator, yk_init init, int64_t fan, yk_tensor *tensor);

#endif
