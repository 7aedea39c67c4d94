/**
 * @file
 * Initial values of parameters, as torch.nn.init gives them. Layers choose their own
 * (yk_init); these functions choose others for a model that has been made, before its first step:
 *
 *     yk_nn_init_normal(model, "*.weight", 0, 0.02);
 *     yk_nn_init_constant(model, "*.bias", 0);
 *
 * Each draws new values, at once, for the parameters whose full names match a shell pattern
 * (fnmatch), in order of declaration, frozen ones included. Numbers come from the generator that
 * the layers' values came from (yk_model_options.seed), as after torch.manual_seed: the same calls
 * in the same order give the bits of PyTorch's, but for the last bits of yk_nn_init_orthogonal, of
 * tensors of fewer than 16 normal numbers, and of normal numbers where PyTorch runs without AVX2.
 * float64 parameters get the same draws as float32 ones.
 *
 * Ranks with the same seed draw the same. Call these before yk_ddp_create, yk_data_parallel_create
 * and yk_ema_create, which copy what the parameters have.
 *
 * Errors change nothing: YK_ERROR_NOT_FOUND when no parameter matches, YK_ERROR_INVALID_ARGUMENT
 * for NULL and for numbers out of range, YK_ERROR_UNSUPPORTED for other dtypes than float32 and
 * float64, YK_ERROR_INVALID_SHAPE where two dimensions are needed and a parameter has fewer.
 */
#ifndef YOKE_NN_INIT_H
#define YOKE_NN_INIT_H

#include <yoke/model.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/** All elements are value: constant_, zeros_ and ones_. */
yk_status yk_nn_init_constant(yk_model *model, const char *pattern, double value);
/** Uniform from a to below b (PyTorch's default is 0 to 1); a is at most b. */
yk_status yk_nn_init_uniform(yk_model *model, const char *pattern, double a, double b);
/** Normal with this mean (PyTorch's default is 0) and standard deviation, at least 0 (1). */
yk_status yk_nn_init_normal(yk_model *model, const char *pattern, double mean, double std);
/**
 * The same, but numbers outside [a, b] are drawn again (PyTorch's default is -2 to 2, whatever std
 * is). More than 0.3 of the normal distribution has to lie between a and b. The bits are those of
 * PyTorch 2.15; earlier versions invert the distribution function instead.
 */
yk_status yk_nn_init_trunc_normal(yk_model *model, const char *pattern, double mean, double std,
                                  double a, double b);

/**
 * Uniform +-sqrt(3) s with s = gain sqrt(2 / (fan_in + fan_out)) (Glorot, Bengio 2010). The fans of
 * a weight (O, I, ...) are I and O times the product of its further sizes. gain is that of
 * torch.nn.init.calculate_gain: 1 for a linear layer, a convolution or sigmoid, 5 / 3 for tanh,
 * sqrt(2) for relu, sqrt(2 / (1 + a^2)) for leaky_relu with the slope a, 3 / 4 for selu.
 */
yk_status yk_nn_init_xavier_uniform(yk_model *model, const char *pattern, double gain);
/** Normal with mean 0 and the standard deviation s, likewise. */
yk_status yk_nn_init_xavier_normal(yk_model *model, const char *pattern, double gain);

/** The fan that yk_nn_init_kaiming_uniform and its like divide by. */
typedef enum yk_fan_mode {
    YK_FAN_IN, /**< activations keep their variance in forward: PyTorch's default */
    YK_FAN_OUT /**< gradients keep theirs in backward */
} yk_fan_mode;

/** Uniform +-sqrt(3) s with s = gain / sqrt(fan) (He et al. 2015); fans and gain are as above.
 *  PyTorch takes a and nonlinearity in place of a gain; their defaults give sqrt(2). */
yk_status yk_nn_init_kaiming_uniform(yk_model *model, const char *pattern, double gain,
                                     yk_fan_mode mode);
/** Normal with mean 0 and the standard deviation s, likewise. */
yk_status yk_nn_init_kaiming_normal(yk_model *model, const char *pattern, double gain,
                                    yk_fan_mode mode);

/** gain times a random orthogonal matrix (Saxe et al. 2013). Of a weight (O, ...), as a matrix with
 *  O rows, the rows are orthonormal if there are no more of them than columns, otherwise the
 *  columns are. The time is in proportion to their number, squared, times their length. */
yk_status yk_nn_init_orthogonal(yk_model *model, const char *pattern, double gain);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
