/* The ranks of `yoke train`: the same options on all of them, DDP and its comm hook. */
#include <stdlib.h>
#include <string.h>

#include "setup.h"
#include "train/train.h"

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

bool cli_training_check_same_options(const cli_training *t)
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

/* ---- DDP ------------------------------------------------------------------------------------- */

static bool register_hook(cli_training *t)
{
    const cli_train_options *o = &t->options;
    if (strcmp(o->comm_hook, "bf16") == 0)
        return cli_ok(yk_ddp_register_bf16_compress_hook(t->ddp));
    if (strcmp(o->comm_hook, "fp16") == 0)
        return cli_ok(yk_ddp_register_fp16_compress_hook(t->ddp));
    if (strcmp(o->comm_hook, "powersgd") != 0)
        return true;
    yk_powersgd_options powersgd = YK_POWERSGD_OPTIONS_INIT;
    powersgd.matrix_approximation_rank = o->powersgd_rank;
    powersgd.start_iter = o->powersgd_start;
    powersgd.random_seed = (uint64_t)o->seed;
    powersgd.iter = t->saved.step;
    return cli_ok(yk_ddp_register_powersgd_hook(t->ddp, &powersgd));
}

int cli_training_ranks(const cli_training *t)
{
    return (int)cli_shares_of_batch(&t->options, yk_group_size(t->world));
}

bool cli_training_create_ddp(cli_training *t)
{
    int ranks = yk_group_size(t->world), virtual_ranks = (int)t->options.virtual_ranks;
    if (virtual_ranks)
        t->shares = virtual_ranks / ranks;
    /* Alone there is nobody to share gradients with; unless a launcher has made it a job of one. */
    if (ranks == 1 && t->shares == 1 && !getenv("WORLD_SIZE"))
        return true;
    yk_ddp_options options = YK_DDP_OPTIONS_INIT;
    options.virtual_ranks = virtual_ranks;
    return cli_ok(yk_ddp_create(&t->ddp, t->model, t->world, &options)) && register_hook(t);
}

static bool is_restarted(const cli_training *t)
{
    const yk_resume_report *report = yk_trainer_resumed(t->trainer);
    return report && report->comm_hook_restarted;
}

void cli_training_introduce_ddp(FILE *page, const cli_training *t)
{
    const cli_train_options *o = &t->options;
    if (t->dp)
        return;
    if (!t->ddp) {
        fprintf(page, "  buckets     none (single rank)\n");
        return;
    }
    if (t->shares > 1) {
        fprintf(page, "  shares      %d virtual ranks, %d each in turn\n", (int)o->virtual_ranks,
                t->shares);
        return;
    }
    size_t buckets = yk_ddp_bucket_count(t->ddp);
    fprintf(page, "  buckets     %zu:", buckets);
    for (size_t i = 0; i < buckets; i++) {
        double kib = (double)yk_ddp_bucket_bytes(t->ddp, i) / 1024;
        fprintf(page, "%s %.1f %s", i ? "," : "", kib < 1024 ? kib : kib / 1024,
                kib < 1024 ? "KiB" : "MiB");
    }
    fprintf(page, ", in the order of backward\n");
    if (strcmp(o->comm_hook, "powersgd") == 0)
        fprintf(page, "  comm hook   PowerSGD of rank %lld after step %lld%s\n",
                (long long)o->powersgd_rank, (long long)o->powersgd_start,
                is_restarted(t) && t->saved.step > o->powersgd_start
                    ? "; it restarts, as the checkpoint has no state that fits it"
                    : "");
    else if (strcmp(o->comm_hook, "none") != 0)
        fprintf(page, "  comm hook   gradients travel in %s\n", o->comm_hook);
    if (o->check_divergence)
        fprintf(page, "  divergence  checked every %lld step%s\n", (long long)o->check_divergence,
                o->check_divergence == 1 ? "" : "s");
}
