/*
 * Whether the options of `yoke train` fit together, before any work starts. Each check prints one
 * line on what is wrong, as a usage error, and returns false.
 */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "setup.h"
#include "train/train.h"

/* ---- the batch ------------------------------------------------------------------------------- */

int64_t cli_shares_of_batch(const cli_train_options *o, int64_t ranks)
{
    return o->virtual_ranks ? o->virtual_ranks : ranks;
}

bool cli_train_options_check_batch(const cli_train_options *o)
{
    const char *name = o->argv[0];
    int64_t ranks = cli_ranks_expected(o->nproc), shares = cli_shares_of_batch(o, ranks);
    int64_t parts = shares * o->accumulate;
    char words[96];
    int length = snprintf(words, sizeof words, "%lld%s rank%s", (long long)shares,
                          o->virtual_ranks ? " virtual" : "", shares == 1 ? "" : "s");
    if (o->accumulate > 1)
        snprintf(words + length, sizeof words - (size_t)length, " x %lld micro-batches",
                 (long long)o->accumulate);
    if (o->batch_size < parts)
        cli_usage_error(name, "--batch-size %lld is less than one image for each of %s",
                        (long long)o->batch_size, words);
    else if (o->batch_size % parts)
        cli_usage_error(name, "--batch-size %lld cannot be shared equally by %s; %lld or %lld can",
                        (long long)o->batch_size, words, (long long)(o->batch_size / parts * parts),
                        (long long)((o->batch_size / parts + 1) * parts));
    else
        return true;
    return false;
}

/* ---- the timeline ---------------------------------------------------------------------------- */

/* "A:B", both from 1 on. */
static bool parse_trace_steps(yk_trace_options *window, const char *text)
{
    long long first, last;
    int length = 0;
    if (sscanf(text, "%lld:%lld%n", &first, &last, &length) != 2 || text[length] || first < 1 ||
        last < first)
        return false;
    *window = (yk_trace_options)YK_TRACE_OPTIONS_INIT;
    window->first_step = first;
    window->steps = last - first + 1;
    return true;
}

/* Where the timeline goes may be the output folder, which is made later. */
static bool check_trace_file(const char *name, const cli_train_options *o)
{
    bool in_output = o->trace && o->output && strncmp(o->trace, o->output, strlen(o->output)) == 0;
    return in_output || cli_check_writable(name, "--trace", o->trace);
}

static bool check_trace(const char *name, cli_train_options *o)
{
    if (!check_trace_file(name, o))
        return false;
    if (o->trace_steps && !o->trace)
        cli_usage_error(name, "--trace-steps requires --trace FILE");
    else if (o->trace_steps && !parse_trace_steps(&o->trace_window, o->trace_steps))
        cli_usage_error(name,
                        "--trace-steps %s: expected A:B, the first and the last step, e.g. 10:19",
                        o->trace_steps);
    else
        return true;
    return false;
}

/* ---- ranks ----------------------------------------------------------------------------------- */

static bool check_virtual_ranks(const char *name, const cli_train_options *o)
{
    int64_t ranks = cli_ranks_expected(o->nproc);
    if (o->virtual_ranks % ranks)
        cli_usage_error(name, "--virtual-ranks %lld cannot be shared equally by %lld ranks",
                        (long long)o->virtual_ranks, (long long)ranks);
    else if (o->virtual_ranks && o->accumulate > 1)
        cli_usage_error(name,
                        "--virtual-ranks cannot be combined with --accumulate: use more virtual "
                        "ranks instead");
    else if (o->virtual_ranks && o->sync_bn)
        cli_usage_error(name, "--virtual-ranks cannot be combined with --sync-bn, which needs the "
                              "batches of all ranks at the same time");
    else if (o->virtual_ranks && strcmp(o->comm_hook, "none") != 0)
        cli_usage_error(name, "--virtual-ranks cannot be combined with --comm-hook");
    else if (o->virtual_ranks && strcmp(o->parallel, "dp") == 0)
        cli_usage_error(name, "--virtual-ranks cannot be combined with --parallel dp");
    else
        return true;
    return false;
}

/* Returns a given option that needs several ranks, or NULL. */
static const char *between_ranks(const cli_train_options *o)
{
    return o->sync_bn                          ? "--sync-bn"
           : strcmp(o->comm_hook, "none") != 0 ? "--comm-hook"
           : o->zero                           ? "--zero"
           : o->check_divergence               ? "--check-divergence"
                                               : NULL;
}

/* DataParallel runs in one process; its devices are checked before anything starts. */
static bool check_parallel(const char *name, const cli_train_options *o)
{
    int count;
    int64_t ranks = cli_ranks_expected(o->nproc);
    bool dp = strcmp(o->parallel, "dp") == 0;
    if (o->devices && !dp)
        cli_usage_error(name, "--devices requires --parallel dp");
    else if (dp && ranks > 1)
        cli_usage_error(name,
                        "--parallel dp runs in one process, but there are %lld ranks: use ddp",
                        (long long)ranks);
    else if (dp && between_ranks(o))
        cli_usage_error(name, "%s cannot be combined with --parallel dp, which has a single rank",
                        between_ranks(o));
    else if (dp && yk_data_parallel_check(o->devices, &count) != YK_OK)
        cli_usage_error(name, "--devices: %s", strstr(yk_last_error(), ": ") + 2);
    else
        return true;
    return false;
}

/* ---- the rest -------------------------------------------------------------------------------- */

static bool check_beginning(const char *name, const cli_train_options *o)
{
    if (o->resume && o->checkpoint)
        cli_usage_error(name, "--resume continues a run and --checkpoint starts a new one: give "
                              "one of them");
    else if (o->resume && strcmp(o->resume, "auto") == 0 && !o->output)
        cli_usage_error(name, "--resume auto looks in the output folder: name it with --output");
    else
        return true;
    return false;
}

/* Options of others that are off. */
static bool check_owners(const char *name, const cli_train_options *o)
{
    if (o->given.powersgd && strcmp(o->comm_hook, "powersgd") != 0)
        cli_usage_error(name,
                        "--powersgd-rank and --powersgd-start require --comm-hook powersgd, not %s",
                        o->comm_hook);
    else if (o->given.scaler && strcmp(o->amp, "fp16") != 0)
        cli_usage_error(name, "--init-scale and --growth-interval require --amp fp16, not %s",
                        o->amp);
    else
        return true;
    return false;
}

static bool check_resume(const char *name, const char *path)
{
    struct stat found;
    if (!cli_check_readable(name, "--resume", path))
        return false;
    if (!path || stat(path, &found) != 0 || !S_ISDIR(found.st_mode))
        return true;
    cli_usage_error(name,
                    "--resume %s is a folder: resume the run in it with --resume auto --output %s",
                    path, path);
    return false;
}

/* In a resumed run the folder may be the checkpoint's word, not the command line's. */
static bool check_data(const char *name, const cli_train_options *o, bool checkpoint_known)
{
    bool stored = o->resume && checkpoint_known && !o->given.data;
    if (!stored || cli_is_choice("cifar10|synthetic", o->data) || access(o->data, F_OK) == 0)
        return cli_check_data(name, "--data", o->data);
    cli_usage_error(name, "the data of the resumed run is no longer at %s: name it with --data",
                    o->data);
    return false;
}

static bool check_files(const char *name, const cli_train_options *o, bool checkpoint_known)
{
    const char *resume = o->resume && strcmp(o->resume, "auto") != 0 ? o->resume : NULL;
    return check_data(name, o, checkpoint_known) && check_resume(name, resume) &&
           cli_check_readable(name, "--checkpoint", o->checkpoint) &&
           cli_check_folder(name, "--output", o->output);
}

bool cli_train_options_check(cli_train_options *o, bool checkpoint_known)
{
    const char *name = o->argv[0];
    cli_model_setup model = {
        .arch = o->arch, .device = o->device, .amp = o->amp, .autocast = o->autocast};
    bool known = !o->resume || checkpoint_known, batch_known = !o->resume || o->given.batch_size;
    return check_trace(name, o) && check_virtual_ranks(name, o) && check_beginning(name, o) &&
           (!known || check_owners(name, o)) && check_parallel(name, o) &&
           (!batch_known || cli_train_options_check_batch(o)) &&
           (!known || cli_recipe_check(name, &o->recipe, o->epochs)) &&
           check_files(name, o, checkpoint_known) && cli_check_model(name, &model);
}
