/* What a process writes about its last calls when a group fails. */
#define _GNU_SOURCE
#include "../faults/rank_lines.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static cJSON *read_record(const char *folder, int rank)
{
    static char text[1 << 20];
    char path[300];
    snprintf(path, sizeof path, "%s/flight-recorder-%d.json", folder, rank);
    cJSON *record = cJSON_Parse(yk_test_read_file(text, sizeof text, path));
    assert_non_null(record);
    return record;
}

static const char *string_of(const cJSON *object, const char *name)
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItem(object, name));
    assert_non_null(text);
    return text;
}

static double number_of(const cJSON *object, const char *name)
{
    const cJSON *item = cJSON_GetObjectItem(object, name);
    assert_true(cJSON_IsNumber(item));
    return item->valuedouble;
}

/* A group and `calls` all-reduces that went well. */
static yk_group *reduce(int calls)
{
    yk_group *group = join(60);
    float value = 1;
    for (int i = 0; i < calls; i++)
        assert_ok(yk_all_reduce(group, &value, 1, YK_F32, YK_REDUCE_MAX, NULL));
    return group;
}

/* Ranks of a test share the folder that their parent has made. */
static void share_folder(void)
{
    setenv("YK_TEST_FOLDER", yk_test_directory(), 0);
}

static const char *shared_folder(void)
{
    return getenv("YK_TEST_FOLDER");
}

/* ---- a timeout ------------------------------------------------------------------------------- */

static void check_entries(const cJSON *entries, int count)
{
    double before = 0;
    assert_int_equal(cJSON_GetArraySize(entries), count);
    for (int i = 0; i < count; i++) {
        const cJSON *entry = cJSON_GetArrayItem(entries, i);
        bool last = i == count - 1;
        double created = number_of(entry, "time_created_ns");
        double started = number_of(entry, "time_discovered_started_ns");
        double completed = number_of(entry, "time_discovered_completed_ns");
        assert_true(created >= before && started >= created && completed >= started);
        assert_string_equal(string_of(entry, "state"), last ? "failed" : "completed");
        before = created;
    }
    assert_true(before > 1e9 * (double)(time(NULL) - 60) &&
                before < 1e9 * (double)time(NULL) + 1e9);
}

static void time_out(int rank, int world)
{
    (void)world;
    int32_t values[3] = {0};
    yk_group *group = reduce(300);
    setenv("YOKE_FLIGHT_RECORDER", shared_folder(), 1);
    if (rank == 1) {
        await_text("done", 0);
        yk_group_destroy(group);
        return;
    }
    yk_work *work;
    set_timeout(group, 0.5);
    assert_ok(yk_broadcast(group, values, 3, YK_I32, 0, &work));
    assert_status(YK_ERROR_TIMEOUT, yk_work_wait(work));
    assert_contains(yk_last_error(), "broadcast(int32 x 3, root 0), operation 301: timed out");
    assert_contains(yk_last_error(), "(its last calls are in ");
    assert_contains(yk_last_error(), "/flight-recorder-0.json)");
    cJSON *record = read_record(shared_folder(), 0);
    const cJSON *entries = cJSON_GetObjectItem(record, "entries");
    check_entries(entries, 256);
    const cJSON *last = cJSON_GetArrayItem(entries, 255);
    assert_string_equal(string_of(last, "profiling_name"), "shm:broadcast(int32 x 3, root 0)");
    assert_int_equal(number_of(last, "collective_seq_id"), 301);
    assert_true(number_of(last, "duration_ms") > 400 && number_of(last, "timeout_ms") == 500);
    assert_int_equal(number_of(cJSON_GetArrayItem(entries, 0), "collective_seq_id"), 46);
    const cJSON *status = cJSON_GetObjectItem(cJSON_GetObjectItem(record, "pg_status"), "0");
    assert_int_equal(number_of(status, "last_started_collective"), 301);
    assert_int_equal(number_of(status, "last_completed_collective"), 300);
    assert_contains(string_of(record, "reason"), "timed out after 0.5 s");
    assert_int_equal(number_of(record, "rank"), 0);
    assert_int_equal(number_of(record, "pid"), getpid());
    cJSON_Delete(record);
    assert_status(YK_ERROR_TIMEOUT, yk_barrier(group)); /* the file is that of the first failure */
    assert_contains(yk_last_error(), "/flight-recorder-0.json)");
    leave_text("done", 0, "yes");
    yk_group_destroy(group);
}

YK_TEST(a_timeout_writes_the_last_256_calls)
{
    open_lines();
    share_folder();
    yk_test_ranks(2, time_out);
}

/* ---- a death --------------------------------------------------------------------------------- */

static void lose_a_rank(int rank, int world)
{
    (void)world;
    yk_group *group = reduce(2), *copy;
    setenv("YOKE_FLIGHT_RECORDER", shared_folder(), 1);
    assert_ok(yk_group_duplicate(&copy, group));
    assert_ok(yk_barrier(copy));
    if (rank == 1)
        _exit(0);
    assert_status(YK_ERROR_PEER_FAILED, yk_barrier(group));
    assert_contains(yk_last_error(), "rank 1");
    cJSON *record = read_record(shared_folder(), rank);
    const cJSON *groups = cJSON_GetObjectItem(record, "pg_config");
    assert_int_equal(cJSON_GetArraySize(groups), 2);
    assert_string_equal(string_of(cJSON_GetObjectItem(groups, "1"), "ranks"), "[0, 1, 2]");
    assert_string_equal(string_of(cJSON_GetObjectItem(groups, "1"), "desc"), "shm");
    cJSON_Delete(record);
    yk_group_destroy(copy);
    yk_group_destroy(group);
}

YK_TEST(every_survivor_of_a_death_writes_all_its_groups)
{
    share_folder();
    yk_test_ranks(3, lose_a_rank);
}

/* After so many messages that the ring has no collective but the last. */
static void lose_a_rank_of_a_part(int rank, int world)
{
    yk_group *all, *part;
    float value = 1;
    setenv("YOKE_FLIGHT_RECORDER", shared_folder(), 1);
    assert_ok(yk_group_init(
        &all, YK_WITH(yk_group_options, YK_GROUP_OPTIONS_INIT, o.timeout_s = (double)INFINITY)));
    assert_ok(yk_group_split(&part, all, rank > 0 ? 1 : YK_COLOR_NONE, 0));
    if (rank > 0)
        assert_ok(yk_all_reduce(part, &value, 1, YK_F32, YK_REDUCE_SUM, NULL));
    for (int i = 0; rank > 0 && i < 300; i++)
        assert_ok(rank == 1 ? yk_send(part, &value, 1, YK_F32, 1)
                            : yk_recv(part, &value, 1, YK_F32, 0));
    if (rank == 2)
        _exit(0);
    if (rank == 1) {
        assert_status(YK_ERROR_PEER_FAILED, yk_barrier(part));
        cJSON *record = read_record(shared_folder(), rank);
        assert_int_equal(number_of(record, "rank"), 1);
        assert_int_equal(number_of(record, "world_size"), world);
        const cJSON *status = cJSON_GetObjectItem(cJSON_GetObjectItem(record, "pg_status"), "1");
        assert_int_equal(number_of(status, "last_started_collective"), 2);
        assert_int_equal(number_of(status, "last_completed_collective"), 1);
        const cJSON *entry = cJSON_GetArrayItem(cJSON_GetObjectItem(record, "entries"), 0);
        assert_true(cJSON_IsNull(cJSON_GetObjectItem(entry, "timeout_ms")));
        cJSON_Delete(record);
    }
    yk_group_destroy(part);
    yk_group_destroy(all);
}

YK_TEST(a_part_writes_of_the_whole_job)
{
    share_folder();
    yk_test_ranks(3, lose_a_rank_of_a_part);
}

/* ---- batches --------------------------------------------------------------------------------- */

/* A batch is its messages, each with its own number. */
static void lose_a_rank_in_a_batch(int rank, int world)
{
    yk_group *group;
    float x[2] = {0};
    yk_message messages[] = {
        {.kind = YK_MESSAGE_SEND, .peer = 1 - rank, .data = &x[0], .count = 1, .dtype = YK_F32},
        {.kind = YK_MESSAGE_RECV, .peer = 1 - rank, .data = &x[1], .count = 1, .dtype = YK_F32},
    };
    (void)world;
    setenv("YOKE_FLIGHT_RECORDER", shared_folder(), 1);
    assert_ok(yk_group_init(&group, NULL));
    assert_ok(yk_batch_send_recv(group, messages, 2, NULL));
    if (rank == 1)
        _exit(0);
    assert_status(YK_ERROR_PEER_FAILED, yk_batch_send_recv(group, messages, 2, NULL));
    cJSON *record = read_record(shared_folder(), rank);
    const cJSON *entries = cJSON_GetObjectItem(record, "entries");
    assert_int_equal(cJSON_GetArraySize(entries), 4);
    for (int i = 0; i < 4; i++) {
        const cJSON *entry = cJSON_GetArrayItem(entries, i);
        assert_true(cJSON_IsTrue(cJSON_GetObjectItem(entry, "is_p2p")));
        assert_int_equal(number_of(entry, "p2p_seq_id"), 1 + i / 2);
        assert_contains(cJSON_GetStringValue(cJSON_GetObjectItem(entry, "profiling_name")),
                        i % 2 ? "recv(float32 x 1, from rank 1)" : "send(float32 x 1, to rank 1)");
        assert_string_equal(cJSON_GetStringValue(cJSON_GetObjectItem(entry, "state")),
                            i < 2 ? "completed" : "failed");
    }
    cJSON_Delete(record);
    yk_group_destroy(group);
}

YK_TEST(a_batch_is_written_as_its_messages)
{
    share_folder();
    yk_test_ranks(2, lose_a_rank_in_a_batch);
}

/* ---- twice ----------------------------------------------------------------------------------- */

static void time_out_twice(int rank, int world)
{
    (void)world;
    char path[300];
    setenv("YOKE_FLIGHT_RECORDER", shared_folder(), 1);
    snprintf(path, sizeof path, "%s/flight-recorder-0.json", shared_folder());
    for (int job = 0; job < 2; job++) {
        char done[16];
        yk_group *group = reduce(1);
        snprintf(done, sizeof done, "done-%d", job);
        if (rank == 0) {
            set_timeout(group, 0.3);
            assert_status(YK_ERROR_TIMEOUT, yk_barrier(group));
            assert_int_equal(unlink(path), 0);
            leave_text(done, 0, "yes");
        } else {
            await_text(done, 0);
        }
        yk_group_destroy(group);
    }
}

/* A process that joins another job after one that failed. */
YK_TEST(each_job_of_a_process_writes_its_own_file)
{
    open_lines();
    share_folder();
    yk_test_ranks(2, time_out_twice);
}

/* ---- where it goes --------------------------------------------------------------------------- */

static void fail_without_a_folder(int rank, int world)
{
    (void)world;
    yk_group *group = reduce(1);
    if (rank == 1)
        _exit(0);
    assert_status(YK_ERROR_PEER_FAILED, yk_barrier(group));
    assert_null(strstr(yk_last_error(), "last calls"));
    setenv("YOKE_FLIGHT_RECORDER", "/dev/null/nowhere", 1);
    assert_status(YK_ERROR_PEER_FAILED, yk_barrier(group));
    assert_contains(yk_last_error(), "(its last calls cannot be written: /dev/null/nowhere");
    yk_group_destroy(group);
}

YK_TEST(without_a_folder_nothing_is_written)
{
    unsetenv("YOKE_FLIGHT_RECORDER");
    unsetenv("TORCHELASTIC_ERROR_FILE");
    yk_test_ranks(2, fail_without_a_folder);
}

static void fail_with_an_error_file(int rank, int world)
{
    (void)world;
    yk_group *group = reduce(1);
    if (rank == 1)
        _exit(0);
    assert_status(YK_ERROR_PEER_FAILED, yk_barrier(group));
    cJSON_Delete(read_record(shared_folder(), rank));
    yk_group_destroy(group);
}

/* Launchers tell each rank where to write how it failed. */
YK_TEST(it_is_written_next_to_the_error_file_of_a_launcher)
{
    char path[300];
    share_folder();
    snprintf(path, sizeof path, "%s/error.json", shared_folder());
    unsetenv("YOKE_FLIGHT_RECORDER");
    setenv("TORCHELASTIC_ERROR_FILE", path, 1);
    yk_test_ranks(2, fail_with_an_error_file);
}

/* A mismatch that all ranks know of is no failure of the group. */
YK_TEST_RANKS(a_mismatch_writes_nothing, 2)
{
    yk_group *group = reduce(1);
    float values[2] = {0};
    setenv("YOKE_FLIGHT_RECORDER", yk_test_directory(), 1);
    assert_status(YK_ERROR_MISMATCH,
                  yk_all_reduce(group, values, 1 + (size_t)rank, YK_F32, YK_REDUCE_SUM, NULL));
    assert_null(strstr(yk_last_error(), "last calls"));
    assert_ok(yk_barrier(group));
    yk_group_destroy(group);
}
