/* What `yoke train` does about its ranks: DDP, the comm hook, the check for divergence. */
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

bool cli_trainer_check_same_options(const cli_trainer *t)
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
    return cli_complain("rank %d was given %.*s, rank %d was not: all ranks need the same options",
                        more ? rank : 0, (int)strcspn(line, "\n"), line, more ? 0 : rank);
}

/* ---- DDP ------------------------------------------------------------------------------------- */

static bool register_hook(cli_trainer *t)
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
    powersgd.iter = t->state.step;
    return cli_ok(yk_ddp_register_powersgd_hook(t->ddp, &powersgd));
}

/* Without its state in the file, or with that of other options, the hook begins anew. */
bool cli_trainer_load_hook(cli_trainer *t)
{
    if (!t->ddp || !t->resumed[0] || strcmp(t->options.comm_hook, "powersgd") != 0)
        return true;
    yk_status status = yk_checkpoint_load_comm_hook(t->resumed, t->ddp);
    t->hook_begins_anew = status == YK_ERROR_NOT_FOUND || status == YK_ERROR_MISMATCH;
    return t->hook_begins_anew || cli_ok(status);
}

int cli_trainer_ranks(const cli_trainer *t)
{
    return (int)cli_shares_of_batch(&t->options, yk_group_size(t->world));
}

bool cli_trainer_create_ddp(cli_trainer *t)
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

bool cli_trainer_shard(cli_trainer *t)
{
    return !t->ddp || !t->options.zero ||
           cli_ok(yk_zero_create(&t->zero, t->optimizer, t->model, t->world));
}

void cli_trainer_introduce_ddp(FILE *page, const cli_trainer *t)
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
                t->hook_begins_anew && t->state.step > o->powersgd_start
                    ? "; the checkpoint has no state that fits it: it begins anew"
                    : "");
    else if (strcmp(o->comm_hook, "none") != 0)
        fprintf(page, "  comm hook   gradients travel in %s\n", o->comm_hook);
    if (o->check_divergence)
        fprintf(page, "  divergence  checked every %lld step%s\n", (long long)o->check_divergence,
                o->check_divergence == 1 ? "" : "s");
}

bool cli_trainer_check_divergence(const cli_trainer *t)
{
    int64_t every = t->options.check_divergence;
    if (!t->ddp || every == 0 || t->state.step % every != 0 ||
        yk_ddp_check_divergence(t->ddp) == YK_OK)
        return true;
    return cli_complain("after step %lld: %s", (long long)t->state.step, yk_last_error());
}
