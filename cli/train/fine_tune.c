/*
 * Starting from a trained network: weights from a file whose last layer may be for other classes,
 * and parameters that stay as they are.
 */
#include <stdio.h>
#include <string.h>

#include "common/plural.h"
#include "setup/setup.h"
#include "train/train.h"

/* ---- --checkpoint ---------------------------------------------------------------------------- */

/* "fc.*": a pattern for the parameters of the last layer. */
static void name_head(const yk_model *model, char *pattern, size_t size)
{
    const char *last = yk_model_parameter(model, yk_model_parameter_count(model) - 1).name;
    const char *dot = strrchr(last, '.');
    snprintf(pattern, size, "%.*s*", dot ? (int)(dot - last) + 1 : 0, last);
}

bool cli_training_load_weights(const cli_training *t)
{
    char head[256], path[4096]; /* the newest checkpoint, where a run is named */
    yk_load_report report;
    yk_load_options options = YK_LOAD_OPTIONS_INIT;
    name_head(t->model, head, sizeof head);
    options.allow_reshaped = head;
    if (!cli_find_checkpoint(path, sizeof path, t->options.checkpoint))
        return false;
    yk_status status = yk_model_load_with(t->model, path, &options, &report);
    if (!cli_weights_loaded(status, path, t->options.arch))
        return false;
    if (report.reshaped && t->talks)
        printf("Loaded %zu %s from %s; the last layer starts from new weights: %s\n", report.loaded,
               cli_plural((int64_t)report.loaded, "tensor", "tensors"), path, report.text);
    return true;
}

/* ---- --freeze -------------------------------------------------------------------------------- */

bool cli_training_check_frozen(const cli_training *t)
{
    for (size_t i = 0; i < yk_model_parameter_count(t->model); i++)
        if (yk_model_parameter(t->model, i).trainable)
            return true;
    return cli_complain("--freeze %s leaves no parameter to train: thaw some with !PATTERN, as in "
                        "'*,!fc.*'",
                        t->options.freeze);
}
