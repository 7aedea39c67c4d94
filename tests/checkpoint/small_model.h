/* A small model, and optimizers of it that have something to save. */
#ifndef YK_TEST_SMALL_MODEL_H
#define YK_TEST_SMALL_MODEL_H

#include <yoke/yoke.h>

/* Two convolutions with batch norm and a linear layer: every kind of tensor there is. frozen: a
 * pattern, or NULL. */
yk_model *make_model_with(uint64_t seed, int64_t classes, const char *frozen);
yk_model *make_model(uint64_t seed, int64_t classes);
/* A few steps with gradients made up, so that optimizer and buffers have something to save. */
void train(yk_model *model, yk_optimizer *optimizer, int steps);
yk_optimizer *make_sgd(yk_model *model);
/* The same state of all parameters, options and steps. */
void assert_same_optimizer(const yk_optimizer *a, const yk_optimizer *b);

#endif
