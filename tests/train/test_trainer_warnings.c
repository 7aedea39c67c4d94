/* What a trainer warns of before a run: it is allowed, and most likely a mistake. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include <yoke/yoke.h>

#include "parts.h"

static yk_status take_step(yk_trainer *trainer)
{
    return yk_trainer_step(trainer, NULL);
}

/* Returns what the log has of the call. */
static const char *log_of(yk_status (*call)(yk_trainer *trainer), yk_trainer *trainer,
                          const char *name)
{
    static char path[512], text[4096];
    snprintf(path, sizeof path, "%s/%s", getenv("YK_TEST_RUN"), name);
    int before = dup(STDERR_FILENO), file = open(path, O_CREAT | O_WRONLY | O_TRUNC, 0600);
    assert_true(before >= 0 && file >= 0 && dup2(file, STDERR_FILENO) >= 0);
    yk_status status = call(trainer);
    assert_true(dup2(before, STDERR_FILENO) >= 0);
    assert_ok(status);
    close(before);
    close(file);
    return yk_test_read_file(text, sizeof text, path);
}

/* The same of a program that takes the steps itself. */
YK_TEST(the_first_step_of_a_program_warns_once)
{
    setenv("YK_TEST_RUN", yk_test_directory(), 0);
    yk_schedule schedule = YK_SCHEDULE_INIT;
    schedule.kind = YK_SCHEDULE_COSINE;
    schedule.t_max = 8;
    yk_trainer_options options = YK_TRAINER_OPTIONS_INIT;
    options.epochs = 2;
    options.schedule = &schedule;
    parts p = create_parts(&options, 80);
    assert_contains(log_of(take_step, p.trainer, "first"),
                    "schedule counts epochs, but is as long");
    assert_null(strstr(log_of(take_step, p.trainer, "second"), "schedule counts epochs"));
    destroy_parts(p);
}

/* ---- ranks ----------------------------------------------------------------------------------- */

static bool warns_of_ranks(yk_group *group, bool with_ddp, const char *name)
{
    yk_ddp *ddp = NULL;
    yk_trainer_options options = YK_TRAINER_OPTIONS_INIT;
    options.epochs = 1;
    options.group = group;
    parts p = create_parts(&options, 80);
    if (with_ddp)
        assert_ok(yk_ddp_create(&ddp, p.model, group, NULL));
    bool warns = strstr(log_of(yk_trainer_fit, p.trainer, name), "its model has no yk_ddp");
    destroy_parts(p);
    yk_ddp_destroy(ddp);
    return warns;
}

static void train_ranks(int rank, int world)
{
    yk_group *group;
    (void)world;
    assert_ok(yk_group_init(&group, NULL));
    const char *name = rank == 0 ? "log-0" : "log-1";
    assert_true(warns_of_ranks(group, false, name) == (rank == 0));
    assert_false(warns_of_ranks(group, true, name));
    yk_group_destroy(group);
}

YK_TEST(ranks_that_train_apart_are_warned_of)
{
    setenv("YK_TEST_RUN", yk_test_directory(), 0);
    yk_test_ranks(2, train_ranks);
}

/* ---- schedules ------------------------------------------------------------------------------- */

/* In a run of 2 epochs of 4 steps. */
static bool warns_of_schedule(yk_schedule schedule)
{
    yk_trainer_options options = YK_TRAINER_OPTIONS_INIT;
    options.epochs = 2;
    options.schedule = &schedule;
    parts p = create_parts(&options, 80);
    bool warns =
        strstr(log_of(yk_trainer_fit, p.trainer, "log"), "schedule counts epochs, but is as long");
    destroy_parts(p);
    return warns;
}

YK_TEST(epochs_that_are_taken_for_steps_are_warned_of)
{
    setenv("YK_TEST_RUN", yk_test_directory(), 0);
    yk_schedule schedule = YK_SCHEDULE_INIT;
    assert_false(warns_of_schedule(schedule));
    schedule.kind = YK_SCHEDULE_ONE_CYCLE;
    schedule.total_steps = 8;
    assert_true(warns_of_schedule(schedule));
    schedule.per_step = true;
    assert_false(warns_of_schedule(schedule));
    schedule.per_step = false;
    schedule.total_steps = 2;
    assert_false(warns_of_schedule(schedule));
    schedule = (yk_schedule)YK_SCHEDULE_INIT;
    schedule.kind = YK_SCHEDULE_COSINE;
    schedule.t_max = 8;
    assert_true(warns_of_schedule(schedule));
}
