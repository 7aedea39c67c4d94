/* A checkpoint that takes longer than ranks wait for each other, as on a file server that hangs. */
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <unistd.h>

#include "../faults/rank_lines.h"
#include "parts.h"

enum { SAVED_STEP = 2 };

static bool hangs;

/* Of the library: in rank 0, it lasts until rank 1 has given up. */
int fsync(int fd)
{
    while (hangs && line_of(1)[0] == '\0') /* the case's deadline ends this */
        usleep(1000);
    return (int)syscall(SYS_fsync, fd);
}

/* Rank 1 waits for nothing but the checkpoint from here on. */
static yk_status on_step(void *context, yk_trainer *trainer, const yk_step_record *record)
{
    (void)trainer;
    yk_group *group = context;
    if (yk_group_rank(group) == 1 && record->step == SAVED_STEP)
        set_timeout(group, 0.5);
    return YK_OK;
}

static void hang_body(int rank, int world)
{
    (void)world;
    yk_ddp *ddp;
    yk_group *group = join(60);
    yk_trainer_options options = YK_TRAINER_OPTIONS_INIT;
    char output[512];
    snprintf(output, sizeof output, "%s/run", getenv("YK_TEST_LINES"));
    options.group = group;
    options.epochs = 1;
    options.output = output;
    options.save_every = SAVED_STEP;
    options.callbacks.context = group;
    options.callbacks.on_step = on_step;
    parts p = create_parts(&options, 200);
    assert_ok(yk_ddp_create(&ddp, p.model, group, NULL));
    hangs = rank == 0;
    assert_status(YK_ERROR_TIMEOUT, yk_trainer_fit(p.trainer));
    leave_line(rank);
    yk_ddp_destroy(ddp);
    destroy_parts(p);
    yk_group_destroy(group);
}

YK_TEST(ranks_that_wait_in_vain_for_a_checkpoint_say_so)
{
    open_lines();
    yk_test_ranks(2, hang_body);
    assert_contains(line_of(1), "yoke: rank 1: while rank 0 saved a checkpoint in ");
    assert_contains(line_of(1), "/run: barrier(), operation ");
    assert_contains(line_of(1), "timed out after 0.5 s: rank 0 did not take part (pid ");
}
