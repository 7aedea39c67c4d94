/* `yoke bench scaling`: the table, its JSON and its picture, of a small network on drawn images. */
#define _GNU_SOURCE
#include "../launcher/job.h"
#include "json_file.h"

#include <math.h>

static char output[32 * 1024];

static int scaling(const char *options)
{
    return yk_test_command(output, sizeof output,
                           "cd %s && %s bench scaling --data synthetic --arch mlp --lr 0.01 %s",
                           yk_test_directory(), test_program(), options);
}

static const char *read_file(const char *name)
{
    static char text[256 * 1024];
    char path[256];
    snprintf(path, sizeof path, "%s/%s", yk_test_directory(), name);
    return yk_test_read_file(text, sizeof text, path);
}

static bool is_close(double a, double b)
{
    return fabs(a - b) <= 2e-3 * fabs(b);
}

static void check_row(const cJSON *row, const cJSON *single, const char *name, int ranks, int batch)
{
    const char *given = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(row, "name"));
    assert_string_equal(given, name);
    assert_int_equal((int)number(row, "ranks"), ranks);
    assert_int_equal((int)number(row, "batch_size"), batch);
    assert_int_equal((int)number(row, "steps"), 5);
    assert_true(is_close(number(row, "seconds"), 5 * batch / number(row, "images_per_s")));
    bool reliable = cJSON_IsNull(cJSON_GetObjectItemCaseSensitive(row, "unreliable"));
    bool comparable = cJSON_IsNull(cJSON_GetObjectItemCaseSensitive(single, "unreliable"));
    if (reliable && comparable) {
        assert_true(is_close(number(row, "speed_up"),
                             number(row, "images_per_s") / number(single, "images_per_s")));
        assert_true(is_close(number(row, "efficiency"), number(row, "speed_up") / ranks));
    } else if (!reliable) {
        assert_true(cJSON_IsNull(cJSON_GetObjectItemCaseSensitive(row, "speed_up")));
    }
    assert_true(number(row, "cpu_seconds") > 0 && number(row, "other_cpu_seconds") >= 0);
    assert_true(number(row, "accuracy") >= 0 && number(row, "accuracy") <= 1);
    double exposed = number(row, "exposed_communication_share");
    assert_true(exposed >= 0 && exposed < 1 && number(row, "data_share") >= 0);
}

YK_TEST(scaling_gives_a_table_json_and_a_picture)
{
    if (scaling("--ranks 1,2,3 --batch-size 122 --max-steps 5 --json a.json --svg a.svg"))
        fail_msg("%s", output);
    assert_contains(output, "122 images a step over all ranks, 5 steps");
    assert_contains(output, "\nSingle device ");
    assert_contains(output, "\nDDP x3 ");

    static const struct {
        const char *name;
        int ranks;
    } expected[] = {
        {"Single device", 1}, {"DataParallel x2", 2}, {"DDP x1", 1}, {"DDP x2", 2}, {"DDP x3", 3}};
    cJSON *table = read_json("a.json");
    const cJSON *rows = cJSON_GetObjectItemCaseSensitive(table, "rows");
    const cJSON *single = cJSON_GetArrayItem(rows, 0), *row;
    size_t found = 0;
    cJSON_ArrayForEach(row, rows)
    {
        if (number(row, "threads") > yk_threads_default(1))
            assert_true(cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(row, "oversubscribed")));
        if (found < sizeof expected / sizeof *expected) {
            int ranks = expected[found].ranks;
            check_row(row, single, expected[found].name, ranks, 122 / ranks * ranks);
        }
        found++;
    }
    assert_true(found > sizeof expected / sizeof *expected); /* and mixed precision */
    cJSON_Delete(table);

    const char *picture = read_file("a.svg");
    assert_true(strncmp(picture, "<svg ", 5) == 0 && strstr(picture, "</svg>\n"));
    assert_contains(picture, ">Single device<");
    assert_contains(picture, ">DDP x2");
    assert_contains(picture, "Speed-up over a single device");
    assert_contains(picture, "prefers-color-scheme: dark");
    assert_null(strstr(picture, "nan"));
    assert_null(strstr(picture, "inf"));
}

YK_TEST(scaling_is_weak_on_request)
{
    if (scaling("--ranks 2 --per-rank-batch 30 --max-steps 5 --amp off --repeats 2 --json b.json"))
        fail_msg("%s", output);
    cJSON *table = read_json("b.json");
    const cJSON *rows = cJSON_GetObjectItemCaseSensitive(table, "rows");
    const cJSON *single = cJSON_GetArrayItem(rows, 0);
    assert_string_equal(cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(table, "scaling")),
                        "weak");
    check_row(single, single, "Single device", 1, 30);
    check_row(cJSON_GetArrayItem(rows, cJSON_GetArraySize(rows) - 1), single, "DDP x2", 2, 60);
    cJSON_Delete(table);
}

/* Rank 0 speaks; the first rows leave ranks out, which wait. */
YK_TEST(ranks_of_a_launcher_measure_scaling)
{
    int code = yk_test_command(output, sizeof output,
                               "cd %s && %s run -n 3 -- %s bench scaling --data synthetic --arch "
                               "mlp --lr 0.01 --batch-size 122 --max-steps 5 --repeats 1 --amp off "
                               "--json c.json",
                               yk_test_directory(), test_program(), test_program());
    if (code)
        fail_msg("%s", output);
    static const int ranks[] = {1, 1, 2, 3}; /* a single device, then DDP */
    cJSON *table = read_json("c.json");
    const cJSON *rows = cJSON_GetObjectItemCaseSensitive(table, "rows");
    assert_int_equal(cJSON_GetArraySize(rows), 4);
    for (int i = 0; i < 4; i++) {
        char name[32];
        snprintf(name, sizeof name, i ? "DDP x%d" : "Single device", ranks[i]);
        check_row(cJSON_GetArrayItem(rows, i), cJSON_GetArrayItem(rows, 0), name, ranks[i],
                  122 / ranks[i] * ranks[i]);
    }
    cJSON_Delete(table);
    assert_contains(output, "[rank 0] DDP x3 ");
    assert_null(strstr(output, "[rank 1]"));
}

YK_TEST(a_failed_training_ends_the_measurement_on_all_ranks)
{
    int code = yk_test_command(output, sizeof output,
                               "cd %s && %s run -n 2 -- %s bench scaling --data . --max-steps 1",
                               yk_test_directory(), test_program(), test_program());
    assert_int_equal(code, 1);
    assert_contains(output, "[rank 0] yoke: Single device failed; its last lines:\n");
}

YK_TEST(no_more_ranks_are_measured_than_were_started)
{
    int code = yk_test_command(output, sizeof output,
                               "%s run -n 2 -- %s bench scaling --data synthetic --ranks 1,3",
                               test_program(), test_program());
    assert_int_equal(code, 2);
    assert_contains(output, "--ranks 1,3: expected numbers from 1 to 2, the ranks that were");
}

/* Numbers reach the trainings as they were given. */
YK_TEST(scaling_passes_large_numbers_on)
{
    assert_int_equal(
        scaling("--ranks 1 --amp off --batch-size 500 --repeats 1 --max-steps 1000000000000"), 0);
    assert_contains(output, "500 images a step over all ranks, 10 steps");
}

YK_TEST(scaling_checks_its_options)
{
    static const char *const wrong[][2] = {
        {"--ranks 0", "expected numbers from 1"},
        {"--ranks 1,,2", "expected numbers from 1"},
        {"--ranks 1,2,1", "--ranks 1,2,1: 1 is listed twice"},
        {"--ranks 2,200", "less than one image for each of 200 ranks"},
        {"--batch-size 4 --per-rank-batch 4", "give one of them"},
        {"--amp bf8", "--amp"},
        {"--repeats 0", "--repeats"},
        {"--lr 0", "--lr must be more than 0"},
        {"--per-rank-batch 2000000 --ranks 1,6", "6 ranks is more than 10000000 images"},
        {"--data /no/such/folder",
         "--data /no/such/folder: no such folder; expected cifar10[:DIR], cifar100[:DIR]"},
        {"--json /no/such/a.json", "--json /no/such/a.json: cannot be written: No such file"},
        {"--svg .", "--svg .: cannot be written: Is a directory"},
        {"--json a --svg a", "name the same file"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(scaling(wrong[i][0]), 2);
        assert_contains(output, wrong[i][1]);
        assert_null(strchr(strchr(output, '\n') + 1, '\n')); /* one line */
    }
}

static void interrupt_scaling(const char *launcher, int number)
{
    static test_job job;
    char command[1024];
    setenv("TMPDIR", yk_test_directory(), 1);
    snprintf(command, sizeof command,
             "%sbench scaling --data synthetic --arch mlp --epochs 100000 --ranks 2", launcher);
    test_job_start(&job, command);
    usleep(500000);
    kill(job.pid, number);
    assert_int_equal(test_job_wait(&job, 60), 128 + number);
    test_job_gone(&job, 2);
    assert_int_equal(
        yk_test_command(output, sizeof output, "ls -d %s/yoke-scaling-*", yk_test_directory()),
        2); /* no such file */
}

YK_TEST(scaling_leaves_nothing_behind_when_interrupted)
{
    interrupt_scaling("", SIGTERM);
}

YK_TEST(scaling_under_a_launcher_leaves_nothing_behind_when_interrupted)
{
    char launcher[600];
    snprintf(launcher, sizeof launcher, "run -n 2 -- %s ", test_program());
    interrupt_scaling(launcher, SIGTERM);
}

YK_TEST(scaling_leaves_nothing_behind_when_its_terminal_is_closed)
{
    signal(SIGHUP, SIG_DFL); /* the tests themselves may run under nohup */
    interrupt_scaling("", SIGHUP);
}

YK_TEST(scaling_shows_why_a_training_failed)
{
    assert_int_equal(scaling("--data . --max-steps 1"), 1);
    assert_contains(output, "yoke: Single device failed; its last lines:\n");
    assert_contains(output, "no data that yoke knows: expected CIFAR-10");
}
