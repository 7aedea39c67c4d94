/* What `yoke train` prints before the first step: every number that matters, and its origin. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "setup.h"
#include "terminal.h"
#include "train/train.h"

static const char *origin(const cli_training *t, bool given, const char *option,
                          const char *fallback)
{
    return given ? option : t->resumed[0] ? "from the checkpoint" : fallback;
}

static void print_batch(FILE *page, const cli_training *t)
{
    bool virtual_ranks = t->options.virtual_ranks > 0;
    int ranks = cli_training_ranks(t);
    fprintf(page, "  batch       effective %lld images a step", (long long)t->options.batch_size);
    if (ranks > 1 || t->options.accumulate > 1)
        fprintf(page, " = %d%s rank%s x %lld", ranks, virtual_ranks ? " virtual" : "",
                ranks == 1 ? "" : "s", (long long)t->micro_batch);
    if (t->options.accumulate > 1)
        fprintf(page, " x %lld accumulated", (long long)t->options.accumulate);
    fprintf(page, " (%s)\n", origin(t, t->options.given.batch_size, "--batch-size", "default"));
}

static void print_precision(FILE *page, const cli_training *t)
{
    const cli_train_options *o = &t->options;
    if (strcmp(o->amp, "off") == 0)
        return;
    fprintf(page, "  precision   mixed: activations in %s, weights and their gradients in f32",
            o->amp);
    if (o->autocast)
        fprintf(page, ", except %s", o->autocast);
    fputc('\n', page);
}

static void print_model(FILE *page, const cli_training *t)
{
    fprintf(page, "  parameters  %lld in %zu tensors\n",
            (long long)yk_model_parameter_elements(t->model), yk_model_parameter_count(t->model));
    cli_training_introduce_ddp(page, t);
}

static void print_memory(FILE *page, const cli_training *t)
{
    int devices = 1;
    yk_memory_plan plan;
    if (t->dp && !cli_ok(yk_data_parallel_check(t->options.devices, &devices)))
        return;
    if (!cli_ok(yk_model_memory_plan(t->model, (t->micro_batch + devices - 1) / devices, &plan)))
        return;
    const double mib = 1 << 20;
    fprintf(page,
            "  memory      MiB a %s: parameters %.1f, gradients %.1f, packed weights %.1f, "
            "activations %.1f, scratch %.1f, optimizer state %.1f",
            t->dp ? "device" : "rank", (double)plan.parameters / mib, (double)plan.gradients / mib,
            (double)plan.packed_weights / mib, (double)plan.activations / mib,
            (double)plan.scratch / mib, (double)yk_optimizer_state_bytes(t->optimizer) / mib);
    if (t->zero)
        fprintf(page, ": 1 of %d ranks' parts (--zero)", yk_group_size(t->world));
    fputc('\n', page);
}

/* Where the run resumes, and why its bits may differ from those of an uninterrupted run. */
static void print_resumed(FILE *page, const cli_training *t)
{
    fprintf(page, "  resumed     from %s, after step %lld\n", t->resumed, (long long)t->saved.step);
    int64_t had = t->saved.world_size;
    int ranks = yk_group_size(t->world);
    if (had && had != ranks)
        fprintf(page, "              on %d rank%s (%s) instead of %lld\n", ranks,
                ranks == 1 ? "" : "s", t->options.given.nproc ? "--nproc" : "set by the launcher",
                (long long)had);
    if (t->saved.threads && t->saved.threads != t->threads)
        fprintf(
            page,
            "              with %d kernel thread%s a rank instead of %lld: sums will be rounded "
            "differently\n",
            t->threads, t->threads == 1 ? "" : "s", (long long)t->saved.threads);
}

static void introduce(FILE *page, const cli_training *t)
{
    const cli_train_options *o = &t->options;
    int ranks = yk_group_size(t->world);
    fprintf(
        page, "Training %s on %s: %lld images, %lld for validation, %lld epoch%s of %lld step%s",
        o->arch, yk_dataset_name(t->train_set), (long long)yk_dataset_size(t->train_set),
        (long long)yk_dataset_size(t->test_set), (long long)o->epochs, o->epochs == 1 ? "" : "s",
        (long long)t->steps_per_epoch, t->steps_per_epoch == 1 ? "" : "s");
    if (o->max_steps)
        fprintf(page, ", at most %lld step%s", (long long)o->max_steps,
                o->max_steps == 1 ? "" : "s");
    fputc('\n', page);
    print_batch(page, t);
    cli_training_introduce_recipe(page, t);
    fprintf(page, "  ranks       %d (%s), %d thread%s each (%s)\n", ranks,
            yk_group_backend(t->world), t->threads, t->threads == 1 ? "" : "s", t->threads_source);
    fprintf(page, "  device      %s\n", yk_model_device_description(t->model));
    if (t->dp)
        fprintf(page, "  devices     %s (--parallel dp)\n", yk_data_parallel_description(t->dp));
    print_precision(page, t);
    if (o->sync_bn)
        fprintf(page, "  batch norm  over the joint batch of all ranks (--sync-bn)\n");
    print_model(page, t);
    if (o->memory_plan)
        print_memory(page, t);
    fprintf(page, "  seed        %lld (%s)\n", (long long)o->seed,
            origin(t, o->given.seed, "--seed", "default"));
    fprintf(page, "  output      %s\n", t->output);
    if (t->resumed[0])
        print_resumed(page, t);
}

void cli_training_introduce(const cli_training *t)
{
    enum { LABELS = 14 };
    char *text = NULL;
    size_t size = 0;
    FILE *page = open_memstream(&text, &size);
    if (!page)
        return;
    introduce(page, t);
    if (fclose(page) == 0)
        cli_print_wrapped(stdout, text, cli_text_columns(STDOUT_FILENO), LABELS);
    fflush(stdout);
    free(text);
}
