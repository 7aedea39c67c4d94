/*
 * Where a run of `yoke train` writes, and what it resumes: rank 0 chooses, all ranks then read the
 * checkpoint's options and compare theirs.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/plural.h"
#include "setup/setup.h"
#include "train/train.h"

/* ---- where to resume, and where to write ----------------------------------------------------- */

/* How long a restarted run waits for the writer of the attempt before. A host that is cut off from
 * the others ends its ranks after seconds, but NFS keeps the locks of a lost host for 90 s. */
enum { PATIENCE_S = 100 };
/* And one with --resume auto: a killed process keeps its files until the last of its threads has
 * ended, which takes a moment on a busy machine. */
enum { MOMENT_S = 2 };

/* Whether the run continues the one of the output folder, whatever checkpoint that has last. */
static bool follows(const cli_train_options *o)
{
    return o->restarted || (o->resume && strcmp(o->resume, "auto") == 0);
}

/* Opens the metrics, which creates the output folder; so a folder that cannot be written ends the
 * run before any work starts. */
static bool open_metrics(cli_training *t)
{
    const cli_train_options *o = &t->options;
    int patience_s = o->restarted ? PATIENCE_S : follows(o) ? MOMENT_S : 0;
    char path[CLI_PATH + 16];
    snprintf(path, sizeof path, "%s/metrics.jsonl", t->output);
    return cli_ok(yk_metrics_open_within(&t->metrics, path, patience_s));
}

/* Without --output each run gets its own folder, even if another starts in the same second. It has
 * the name of the network, which a checkpoint says. */
static bool make_own_folder(cli_training *t)
{
    const char *arch = t->options.arch;
    time_t clock = time(NULL);
    struct tm date;
    char stamp[32];
    strftime(stamp, sizeof stamp, "%Y%m%d-%H%M%S", localtime_r(&clock, &date));
    if (t->resumed[0]) {
        if (!cli_ok(yk_checkpoint_read_state(t->resumed, &t->saved)))
            return false;
        arch = t->saved.arch;
    }
    int length = snprintf(t->output, sizeof t->output, "runs/%s-%s", arch, stamp);
    if (mkdir("runs", 0777) && errno != EEXIST)
        return cli_complain("cannot create the folder runs: %s", strerror(errno));
    for (int number = 2; mkdir(t->output, 0777); number++) {
        if (errno != EEXIST)
            return cli_complain("cannot create the folder %s: %s", t->output, strerror(errno));
        snprintf(t->output + length, sizeof t->output - (size_t)length, "-%d", number);
    }
    return open_metrics(t);
}

/* The newest checkpoint of the output folder, where there is one. A run whose checkpoints are all
 * damaged is not overwritten by a new one. */
static bool find_newest(cli_training *t)
{
    char path[CLI_PATH];
    if (access(t->output, F_OK))
        return true;
    yk_status status = yk_checkpoint_dir_latest(t->output, path, sizeof path);
    if (status == YK_OK)
        snprintf(t->resumed, sizeof t->resumed, "%s", path);
    return status == YK_ERROR_NOT_FOUND || cli_ok(status);
}

/* Whether the file is in the output folder. A run may resume from any of its own checkpoints. */
static bool is_in_output(const cli_training *t, const char *file)
{
    char path[PATH_MAX], folder[PATH_MAX];
    if (!realpath(file, path) || !realpath(t->output, folder))
        return false;
    *strrchr(path, '/') = '\0';
    return strcmp(path, folder) == 0;
}

/* Whether the newest checkpoint is one of an earlier attempt of this job. */
static bool is_own(const cli_training *t)
{
    return t->resumed[0] && yk_checkpoint_dir_is_restarted(t->output, t->resumed);
}

/* The file of --resume, or NULL where the newest checkpoint is wanted or nothing is to resume. */
static const char *resumed_file(const cli_train_options *o)
{
    return o->resume && strcmp(o->resume, "auto") != 0 ? o->resume : NULL;
}

/*
 * The checkpoint that the folder's run continues from: the newest one, or for --resume FILE that
 * file. A restarted run has the newest first, whatever it was started from, if it is its own: the
 * first attempt may have refused the folder of another run, or have ended before it saved anything.
 * Only a file of the folder itself may be chosen where the folder has checkpoints: others would mix
 * two runs.
 */
static bool choose_checkpoint(cli_training *t)
{
    const cli_train_options *o = &t->options;
    const char *file = resumed_file(o);
    bool goes_back = file && is_in_output(t, file);
    t->resumed[0] = '\0';
    if ((o->restarted || !goes_back) && !find_newest(t))
        return false;
    bool own = o->restarted && is_own(t);
    if (goes_back && !own)
        t->resumed[0] = '\0';
    t->output_is_taken = t->resumed[0] && !own && (file || !o->resume || o->resumes_by_itself);
    if (t->output_is_taken)
        return cli_complain(
            "%s already contains the checkpoint %s%s; continue that run with --resume auto, or "
            "choose another --output",
            t->output, t->resumed,
            o->restarted ? ", which this job is not known to have saved" : "");
    if (file && !t->resumed[0])
        snprintf(t->resumed, sizeof t->resumed, "%s", file);
    return true;
}

/* There is no checkpoint to resume from. After a restart this is a warning, because the user may
 * expect the run to continue. */
static void say_nothing_found(const cli_training *t)
{
    const char *folder = t->options.output;
    if (!t->options.restarted && t->talks)
        printf("No checkpoint in %s: starting a new run\n", t->output);
    if (t->options.restarted && folder)
        cli_complain("restarted, but there is no checkpoint in %s: starting from the beginning",
                     folder);
    if (t->options.restarted && !folder)
        cli_complain("restarted, but without --output there is no folder to resume from: starting "
                     "from the beginning");
    fflush(stdout);
}

/* Rank 0 names the output folder and finds the checkpoint; "" in a new run. */
static bool choose_paths(cli_training *t)
{
    const cli_train_options *o = &t->options;
    if (!o->output) {
        if (o->restarted)
            say_nothing_found(t);
        snprintf(t->resumed, sizeof t->resumed, "%s", o->resume ? o->resume : "");
        return make_own_folder(t);
    }
    snprintf(t->output, sizeof t->output, "%s", o->output);
    if (follows(o) && !open_metrics(t)) /* whose writer may still save a checkpoint */
        return false;
    if (!choose_checkpoint(t))
        return false;
    if (o->resume && !t->resumed[0])
        say_nothing_found(t);
    return t->metrics || open_metrics(t);
}

/* Only rank 0 tries, so that an error is printed once; the other ranks learn the outcome. They wait
 * for its end, so that a launcher does not take one of them for the first to fail. */
static bool rank0_could(const cli_training *t, bool it_could)
{
    uint8_t fine = it_could;
    if (!cli_ok(yk_broadcast(t->world, &fine, 1, YK_U8, 0, NULL)))
        return false;
    if (!fine && !t->leads)
        yk_barrier(t->world);
    return fine;
}

/* Where hosts have folders of their own, rank 0 may be on another one than before. */
static bool share_checkpoints(const cli_training *t)
{
    const char *output = t->options.output;
    return !output || cli_ok(yk_checkpoint_dir_share(output, t->world));
}

static bool agree_on_paths(cli_training *t)
{
    return share_checkpoints(t) && rank0_could(t, t->leads && choose_paths(t)) &&
           cli_share_text(t->world, t->output, sizeof t->output) &&
           cli_share_text(t->world, t->resumed, sizeof t->resumed);
}

/* ---- what the checkpoint says ---------------------------------------------------------------- */

/* A switch that an optimizer's state depends on. */
static bool check_switch(const cli_training *t, const char *name, bool now, bool saved)
{
    return now == saved ||
           cli_complain("--%s%s: %s was trained %s --%s, which a resumed run cannot change",
                        now ? "" : "no-", name, t->resumed, saved ? "with" : "without", name);
}

/* An optimizer's state and groups are those that it was created with. */
static bool check_optimizer(const cli_training *t)
{
    const cli_train_options *o = &t->options;
    double momentum = o->sgd.momentum;
    if (o->given.momentum && momentum == 0 && o->saved_momentum > 0)
        return cli_complain("--momentum 0: %s was trained with momentum %g, which a resumed run "
                            "can change but not switch off",
                            t->resumed, o->saved_momentum);
    if (o->given.momentum && momentum > 0 && o->saved_momentum == 0)
        return cli_complain("--momentum %g: %s was trained without momentum, which a resumed run "
                            "cannot switch on",
                            momentum, t->resumed);
    if (!check_switch(t, "centered", o->rmsprop.centered, o->saved_centered) ||
        !check_switch(t, "amsgrad", o->adam.amsgrad, o->saved_amsgrad))
        return false;
    if (o->adagrad.initial_accumulator_value != o->saved_accumulator)
        return cli_complain("--initial-accumulator-value %g: %s was trained with %g, which a "
                            "resumed run cannot change",
                            o->adagrad.initial_accumulator_value, t->resumed, o->saved_accumulator);
    if (!o->decay_norms && o->saved_decay_norms)
        return cli_complain("--no-decay-norms: %s was trained with all parameters in one group; "
                            "a resumed run cannot give norms and biases another",
                            t->resumed);
    if (o->decay_norms && !o->saved_decay_norms)
        return cli_complain("--decay-norms: %s was trained with norms and biases in their own "
                            "group, which a resumed run cannot undo",
                            t->resumed);
    const char *patterns = o->lr_groups ? o->lr_groups : "";
    if (!cli_lr_groups_are_alike(patterns, o->saved_lr_groups))
        return cli_complain("--lr-group %s: %s was trained %s%s; a resumed run can change rates, "
                            "but not patterns",
                            patterns, t->resumed, *o->saved_lr_groups ? "with " : "without any",
                            o->saved_lr_groups);
    return true;
}

/* Whether the run can resume from the checkpoint with the options that are now given. */
static bool check_adopted(const cli_training *t)
{
    const cli_train_options *o = &t->options;
    const yk_training_state *state = &t->saved;
    if (state->batch_size < 1 || state->batch_size > CLI_MAX_BATCH ||
        state->threads > CLI_MAX_THREADS)
        return cli_complain("%s is not valid: it claims batches of %lld and %lld threads per rank",
                            t->resumed, (long long)state->batch_size, (long long)state->threads);
    if (o->given.arch && strcmp(o->arch, state->arch) != 0)
        return cli_complain("%s holds weights of %s, not of the %s of --arch", t->resumed,
                            state->arch, o->arch);
    int64_t shares = cli_shares_of_batch(o, yk_group_size(t->world)), k = o->trainer.accumulate;
    int64_t batch = o->given.batch_size ? o->batch_size : state->batch_size;
    if (batch % (shares * k))
        return cli_complain("the run's batch of %lld is not divisible by %lld %s x %lld %s",
                            (long long)batch, (long long)shares,
                            cli_plural(shares, "rank", "ranks"), (long long)k,
                            cli_plural(k, "micro-batch", "micro-batches"));
    if (o->loader.virtual_ranks && o->model.threads != YK_THREADS_AUTO && state->threads &&
        o->model.threads != state->threads)
        return cli_complain(
            "%s was made with %lld %s per rank; with --virtual-ranks, --threads cannot "
            "change",
            t->resumed, (long long)state->threads, cli_plural(state->threads, "thread", "threads"));
    return check_optimizer(t);
}

/* A resumed run keeps what it was started with, unless the command line says otherwise. */
static bool adopt(cli_training *t)
{
    cli_train_options *o = &t->options;
    yk_training_state *state = &t->saved;
    if (!t->resumed[0])
        return cli_train_options_check_batch(o) && cli_train_options_check(o, true);
    if (!cli_ok(yk_checkpoint_read_state(t->resumed, state)))
        return false;
    if (!cli_train_options_resume(o, state))
        return cli_complain("cannot resume from %s with these options", t->resumed);
    if (!check_adopted(t))
        return false;
    o->arch = state->arch;
    if (!o->given.seed)
        o->model.seed = o->loader.seed = state->seed;
    if (!o->given.batch_size)
        o->batch_size = state->batch_size;
    return true;
}

/* ---- the same options everywhere ------------------------------------------------------------- */

/* The first of these lines that the others lack, or NULL. */
static const char *lacking(const char *others, const char *lines)
{
    for (const char *line = lines; *line; line = strchr(line, '\n') + 1) {
        size_t length = (size_t)(strchr(line, '\n') + 1 - line);
        const char *other = others;
        while (*other && strncmp(other, line, length) != 0)
            other = strchr(other, '\n') + 1;
        if (!*other)
            return line;
    }
    return NULL;
}

/* Ranks that were started by hand may have been given different options. */
static bool check_same_options(const cli_training *t)
{
    const char *mine = t->options.kept, *line;
    char first[sizeof t->options.kept];
    memcpy(first, mine, sizeof first);
    if (!cli_share_text(t->world, first, sizeof first))
        return false;
    bool more = (line = lacking(first, mine)) != NULL;
    if (!more && !(line = lacking(mine, first)))
        return true;
    int rank = yk_group_rank(t->world);
    return cli_complain(
        "rank %d was given --%.*s, rank %d was not: all ranks need the same options",
        more ? rank : 0, (int)strcspn(line, "\n"), line, more ? 0 : rank);
}

bool cli_training_find(cli_training *t)
{
    return agree_on_paths(t) && rank0_could(t, t->leads && adopt(t)) && (t->leads || adopt(t)) &&
           check_same_options(t);
}
