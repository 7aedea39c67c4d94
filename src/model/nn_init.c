/* See yoke/nn_init.h. The generator goes on where the layers' values have left it. */
#define _GNU_SOURCE
#include <yoke/nn_init.h>

#include <float.h>
#include <fnmatch.h>
#include <math.h>

#include "model/model.h"
#include "tensor/init.h"

static bool is_chosen(const yki_variable *parameter, const char *pattern)
{
    return fnmatch(pattern, parameter->value->name, 0) == 0;
}

/* Before anything is drawn. */
static yk_status check(const yk_model *model, const char *pattern, const yki_recipe *recipe)
{
    const yki_variables *variables = &model->variables;
    bool of_matrices = recipe->scale != YKI_SCALE_NONE || recipe->kind == YKI_ORTHOGONAL;
    size_t matches = 0;
    for (size_t i = 0; i < variables->parameter_count; i++) {
        const yki_variable *parameter = &variables->parameters[i];
        if (!is_chosen(parameter, pattern))
            continue;
        yk_tensor tensor = yki_variable_tensor(variables, parameter, parameter->data);
        if (tensor.dtype != YK_F32 && tensor.dtype != YK_F64)
            return yki_error(YK_ERROR_UNSUPPORTED,
                             "%s is %s; initial values are for float32 and float64",
                             parameter->value->name, yk_dtype_name(tensor.dtype));
        if (of_matrices && tensor.ndim < 2)
            return yki_error(YK_ERROR_INVALID_SHAPE,
                             "%s: these initial values need 2 dimensions or more, not %d",
                             parameter->value->name, tensor.ndim);
        matches++;
    }
    return matches ? YK_OK : yki_graph_no_parameter(model->graph, pattern);
}

static yk_status initialise(yk_model *model, const char *pattern, const yki_recipe *recipe)
{
    if (!model || !pattern)
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "initial values: %s is NULL",
                         model ? "pattern" : "model");
    YK_TRY(check(model, pattern, recipe));
    yki_variables *variables = &model->variables;
    yk_status status = YK_OK;
    for (size_t i = 0; i < variables->parameter_count && status == YK_OK; i++)
        if (is_chosen(&variables->parameters[i], pattern))
            status = yki_variables_draw_again(variables, i, recipe);
    yk_model_parameters_changed(model);
    return status;
}

static yk_status check_number(const char *name, double value)
{
    if (fabs(value) <= FLT_MAX)
        return YK_OK;
    return yki_error(YK_ERROR_INVALID_ARGUMENT, "%s is %g, expected a finite number", name, value);
}

static yk_status check_normal(double mean, double std)
{
    YK_TRY(check_number("mean", mean));
    YK_TRY(check_number("std", std));
    if (std >= 0)
        return YK_OK;
    return yki_error(YK_ERROR_INVALID_ARGUMENT, "std is %g, expected 0 or more", std);
}

static yk_status check_range(double a, double b)
{
    YK_TRY(check_number("a", a));
    YK_TRY(check_number("b", b));
    if (a > b)
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "a is %g and b %g, expected a <= b", a, b);
    return check_number("b - a", b - a);
}

yk_status yk_nn_init_constant(yk_model *model, const char *pattern, double value)
{
    return initialise(model, pattern, &(yki_recipe){.kind = YKI_CONSTANT, .value = value});
}

yk_status yk_nn_init_uniform(yk_model *model, const char *pattern, double a, double b)
{
    YK_TRY(check_range(a, b));
    return initialise(model, pattern, &(yki_recipe){.kind = YKI_UNIFORM, .a = a, .b = b});
}

yk_status yk_nn_init_normal(yk_model *model, const char *pattern, double mean, double std)
{
    YK_TRY(check_normal(mean, std));
    return initialise(model, pattern, &(yki_recipe){.kind = YKI_NORMAL, .mean = mean, .std = std});
}

/* Of the normal distribution, what is below x: in float32, where a deviation that is lost beside
 * the mean would let numbers be drawn again for ever. */
static double share_below(double mean, double std, double x)
{
    return (1 + erf(((float)x - (double)(float)mean) / (float)std / sqrt(2))) / 2;
}

yk_status yk_nn_init_trunc_normal(yk_model *model, const char *pattern, double mean, double std,
                                  double a, double b)
{
    YK_TRY(check_normal(mean, std));
    YK_TRY(check_range(a, b));
    double share = share_below(mean, std, b) - share_below(mean, std, a);
    if (!(share > 0.3)) /* or NaN, where std is 0 and mean a or b */
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "of normal(%g, %g), a share of %g is between a = %g and b = %g, expected "
                         "more than 0.3",
                         mean, std, share, a, b);
    return initialise(
        model, pattern,
        &(yki_recipe){.kind = YKI_TRUNC_NORMAL, .mean = mean, .std = std, .a = a, .b = b});
}

static yk_status scaled(yk_model *model, const char *pattern, yki_recipe_kind kind, yki_scale scale,
                        double gain)
{
    YK_TRY(check_number("gain", gain));
    return initialise(model, pattern, &(yki_recipe){.kind = kind, .scale = scale, .gain = gain});
}

yk_status yk_nn_init_xavier_uniform(yk_model *model, const char *pattern, double gain)
{
    return scaled(model, pattern, YKI_UNIFORM, YKI_SCALE_XAVIER, gain);
}

yk_status yk_nn_init_xavier_normal(yk_model *model, const char *pattern, double gain)
{
    return scaled(model, pattern, YKI_NORMAL, YKI_SCALE_XAVIER, gain);
}

static yk_status kaiming(yk_model *model, const char *pattern, yki_recipe_kind kind, double gain,
                         yk_fan_mode mode)
{
    if (mode != YK_FAN_IN && mode != YK_FAN_OUT)
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "yk_fan_mode %d: expected YK_FAN_IN (%d) or YK_FAN_OUT (%d)", (int)mode,
                         YK_FAN_IN, YK_FAN_OUT);
    return scaled(model, pattern, kind, mode == YK_FAN_IN ? YKI_SCALE_FAN_IN : YKI_SCALE_FAN_OUT,
                  gain);
}

yk_status yk_nn_init_kaiming_uniform(yk_model *model, const char *pattern, double gain,
                                     yk_fan_mode mode)
{
    return kaiming(model, pattern, YKI_UNIFORM, gain, mode);
}

yk_status yk_nn_init_kaiming_normal(yk_model *model, const char *pattern, double gain,
                                    yk_fan_mode mode)
{
    return kaiming(model, pattern, YKI_NORMAL, gain, mode);
}

yk_status yk_nn_init_orthogonal(yk_model *model, const char *pattern, double gain)
{
    return scaled(model, pattern, YKI_ORTHOGONAL, YKI_SCALE_NONE, gain);
}
