/*
 * Starting from a trained network: weights from a file whose last layer may be for other classes,
 * parameters that stay as they are, and parts with their own learning rates.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "setup.h"
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
    char head[256];
    yk_load_report report;
    yk_load_options options = YK_LOAD_OPTIONS_INIT;
    name_head(t->model, head, sizeof head);
    options.allow_reshaped = head;
    if (!cli_ok(yk_model_load_with(t->model, t->options.checkpoint, &options, &report)))
        return false;
    if (report.reshaped && t->leads)
        printf("Loaded %zu tensors from %s; the last layer starts from new weights: %s\n",
               report.loaded, t->options.checkpoint, report.text);
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

/* ---- --lr-group ------------------------------------------------------------------------------ */

/* The next "PATTERN=RATE" of *at, which moves on; false at the end and for what is neither. */
static bool next_group(const char **at, char *pattern, size_t size, double *rate)
{
    const char *equals = strchr(*at, '=');
    char *end;
    if (!equals || equals == *at || (size_t)(equals - *at) >= size)
        return false;
    snprintf(pattern, size, "%.*s", (int)(equals - *at), *at);
    *rate = strtod(equals + 1, &end);
    if (end == equals + 1 || (*end && *end != ',') || !(*rate >= 0 && *rate <= 1e6))
        return false;
    *at = *end ? end + 1 : end;
    return true;
}

bool cli_lr_groups_are_valid(const char *text)
{
    char pattern[256];
    double rate;
    while (*text)
        if (!next_group(&text, pattern, sizeof pattern, &rate))
            return false;
    return true;
}

/* Groups are numbered from 1 on, as they are listed. In a resumed run they exist already. */
yk_status cli_training_set_lr_groups(cli_training *t, double factor)
{
    char pattern[256];
    double rate;
    const char *at = t->options.lr_groups ? t->options.lr_groups : "";
    for (size_t group = 1; next_group(&at, pattern, sizeof pattern, &rate); group++) {
        yk_status status = YK_OK;
        if (yk_optimizer_group_count(t->optimizer) <= group)
            status = yk_optimizer_add_param_group(t->optimizer, yk_filter_name, pattern, NULL);
        if (status == YK_OK)
            status =
                yk_optimizer_set_group_hyperparameter(t->optimizer, group, "lr", rate * factor);
        if (status != YK_OK)
            return status;
    }
    return YK_OK;
}
