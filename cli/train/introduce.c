/* What `yoke train` prints before the first step: every number that matters, and its origin. */
#include <string.h>

#include "setup.h"
#include "train/train.h"

static const char *origin(const cli_trainer *t, bool given, const char *option,
                          const char *fallback)
{
    return given ? option : t->resumed[0] ? "from the checkpoint" : fallback;
}

static void print_batch(const cli_trainer *t)
{
    bool virtual_ranks = t->options.virtual_ranks > 0;
    int ranks = cli_trainer_ranks(t);
    printf("  batch       effective %lld images a step", (long long)t->options.batch_size);
    if (ranks > 1 || t->options.accumulate > 1)
        printf(" = %d%s rank%s x %lld", ranks, virtual_ranks ? " virtual" : "",
               ranks == 1 ? "" : "s", (long long)t->micro_batch);
    if (t->options.accumulate > 1)
        printf(" x %lld accumulated", (long long)t->options.accumulate);
    printf(" (%s)\n", origin(t, t->options.given.batch_size, "--batch-size", "default"));
}

static void print_precision(const cli_trainer *t)
{
    const cli_train_options *o = &t->options;
    if (strcmp(o->amp, "off") == 0)
        return;
    printf("  precision   mixed: activations in %s, weights and their gradients in f32", o->amp);
    if (o->autocast)
        printf("; except %s", o->autocast);
    putchar('\n');
}

static void print_model(const cli_trainer *t)
{
    printf("  parameters  %lld in %zu tensors\n", (long long)yk_model_parameter_elements(t->model),
           yk_model_parameter_count(t->model));
    cli_trainer_introduce_ddp(t);
}

static void print_memory(const cli_trainer *t)
{
    int devices = 1;
    yk_memory_plan plan;
    if (t->dp && !cli_ok(yk_data_parallel_check(t->options.devices, &devices)))
        return;
    if (!cli_ok(yk_model_memory_plan(t->model, (t->micro_batch + devices - 1) / devices, &plan)))
        return;
    const double mib = 1 << 20;
    printf("  memory      MiB a %s: parameters %.1f, gradients %.1f, packed weights %.1f, "
           "activations %.1f, scratch %.1f, optimizer state %.1f",
           t->dp ? "device" : "rank", (double)plan.parameters / mib, (double)plan.gradients / mib,
           (double)plan.packed_weights / mib, (double)plan.activations / mib,
           (double)plan.scratch / mib, (double)yk_optimizer_state_bytes(t->optimizer) / mib);
    if (t->zero)
        printf(": 1 of %d ranks' parts (--zero)", yk_group_size(t->world));
    putchar('\n');
}

/* Where it goes on, and what keeps it from being, to the bit, the run that never stopped. */
static void print_resumed(const cli_trainer *t)
{
    printf("  going on    from %s, after step %lld\n", t->resumed, (long long)t->state.step);
    if (t->resumed_threads && t->resumed_threads != t->threads)
        printf("              with %d kernel thread%s a rank instead of %lld: sums will be rounded "
               "differently\n",
               t->threads, t->threads == 1 ? "" : "s", (long long)t->resumed_threads);
}

void cli_trainer_introduce(const cli_trainer *t)
{
    const cli_train_options *o = &t->options;
    int ranks = yk_group_size(t->world);
    printf("Training %s on %s: %lld images, %lld for validation, %lld epoch%s of %lld step%s",
           o->arch, yk_dataset_name(t->train_set), (long long)yk_dataset_size(t->train_set),
           (long long)yk_dataset_size(t->test_set), (long long)o->epochs, o->epochs == 1 ? "" : "s",
           (long long)t->steps_per_epoch, t->steps_per_epoch == 1 ? "" : "s");
    if (o->max_steps)
        printf(", ended after %lld", (long long)o->max_steps);
    putchar('\n');
    print_batch(t);
    cli_trainer_introduce_recipe(t);
    printf("  ranks       %d (%s), %d thread%s each (%s)\n", ranks, yk_group_backend(t->world),
           t->threads, t->threads == 1 ? "" : "s", t->threads_source);
    printf("  device      %s\n", yk_model_device_description(t->model));
    if (t->dp)
        printf("  devices     %s (--parallel dp)\n", yk_data_parallel_description(t->dp));
    print_precision(t);
    if (o->sync_bn)
        printf("  batch norm  over the joint batch of all ranks (--sync-bn)\n");
    print_model(t);
    if (o->memory_plan)
        print_memory(t);
    printf("  seed        %lld (%s)\n", (long long)o->seed,
           origin(t, o->given.seed, "--seed", "default"));
    printf("  output      %s\n", t->output);
    if (t->resumed[0])
        print_resumed(t);
    fflush(stdout);
}
