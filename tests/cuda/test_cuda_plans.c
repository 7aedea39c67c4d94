/* Which engines convolutions run on, and how that is kept on disk. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cores.h"
#include "conv/plan.h"
#include "device/plan_cache.h"
#include "harness.h"
#include "libraries.h"
#include "sim_device.h"

/* The engines of the stand-in for cuDNN (libraries/cudnn.c) that may be used. */
enum { TENSOR_CORES = 2, WINOGRAD = 3, FIRST_GOOD = 6, COMPILED = 7, FALLBACK = 8 };
/* What is measured: so many runs of each candidate. */
enum { RUNS = 6 };

static const yki_cudnn_conv problem = {.dtype = YK_F32,
                                       .x = {1, 8, 4, 4},
                                       .w = {8, 8, 3, 3},
                                       .y = {1, 8, 4, 4},
                                       .stride = {1, 1},
                                       .padding = {1, 1},
                                       .dilation = {1, 1}};

static int measured;

/* The second candidate is the fastest. The first run of each, which does not count, is slow. */
static double second_is_fastest(void)
{
    static const double seconds[] = {3e-3, 1e-3, 2e-3};
    int candidate = measured / RUNS % 3;
    return measured++ % RUNS ? seconds[candidate] : 1;
}

static yki_cuda_device *open_device(double (*seconds)(void))
{
    static const yki_device_options options = {.threads = 1};
    yki_device *device;
    assert_ok(sim_device_type.create(&device, &options));
    sim_device_measure(device, seconds);
    yki_cuda_device *cuda = (yki_cuda_device *)device;
    snprintf(cuda->model, sizeof cuda->model, "Some GPU-%d", 132);
    return cuda;
}

/* The number of the engine that a device chooses. */
static int engine_of(yki_cuda_device *device, const yki_cudnn_conv *conv)
{
    const yki_cudnn *cudnn;
    const yki_cudnn_plan *plan, *again;
    unsigned engine;
    assert_ok(yki_cuda_need_cudnn(device, &cudnn));
    assert_ok(yki_cuda_conv_plan(device, cudnn, conv, &plan));
    assert_ok(yki_cuda_conv_plan(device, cudnn, conv, &again));
    assert_ptr_equal(plan, again);
    char *text = yki_cudnn_plan_save(cudnn, plan);
    assert_int_equal(sscanf(text, "{\"fake\": \"%2x", &engine), 1);
    free(text);
    return (int)engine;
}

static int choose(double (*seconds)(void), const yki_cudnn_conv *conv)
{
    yki_cuda_device *device = open_device(seconds);
    int engine = engine_of(device, conv);
    device->base.type->destroy(&device->base);
    return engine;
}

/* Engines are passed over whose results vary, which are less precise, that do not work, or that
 * need too much memory. */
YK_TEST(the_first_engine_that_may_be_used)
{
    assert_int_equal(choose(NULL, &problem), FIRST_GOOD);
    yki_cudnn_conv narrow = problem;
    narrow.dtype = YK_BF16;
    assert_int_equal(choose(NULL, &narrow), TENSOR_CORES);
    narrow.dtype = YK_F64;
    assert_int_equal(choose(NULL, &narrow), TENSOR_CORES);
    yki_cuda_device *device = open_device(NULL);
    device->winograd = true;
    assert_int_equal(engine_of(device, &problem), WINOGRAD);
    device->base.type->destroy(&device->base);
    setenv("YOKE_CUDA_TF32", "1", 1);
    assert_int_equal(choose(NULL, &problem), TENSOR_CORES);
}

YK_TEST(a_malformed_variable_is_an_error)
{
    yki_cuda_device *device = open_device(NULL);
    const yki_cudnn *cudnn;
    setenv("YOKE_CUDA_TF32", "yes", 1);
    assert_status(YK_ERROR_INVALID_ARGUMENT, yki_cuda_need_cudnn(device, &cudnn));
    assert_contains(yk_last_error(), "YOKE_CUDA_TF32");
    device->base.type->destroy(&device->base);
}

/* By the name of its newest version. */
YK_TEST(a_missing_library_is_named)
{
    yki_cuda_library nowhere = {.what = "cuNothing",
                                .files = {"libcunothing.so.2", "libcunothing.so.1"},
                                .package = "nothing",
                                .symbols = (const char *const[]){NULL}};
    assert_status(YK_ERROR_UNSUPPORTED, yki_cuda_library_open(&nowhere, NULL));
    assert_contains(yk_last_error(), "device cuda: cuNothing cannot be opened (libcunothing.so.2: "
                                     "cannot open shared object file");
    assert_contains(yk_last_error(), "install nothing, or put its folder into YOKE_CUDA_LIBS");
}

/* By what is wrong with it, although a newer version is not there. */
YK_TEST(a_damaged_library_is_named)
{
    char folders[1024];
    yki_cuda_library damaged = {.what = "cuNothing",
                                .files = {"libcunothing.so.2", "libcunothing.so.1"},
                                .package = "nothing",
                                .symbols = (const char *const[]){NULL}};
    yk_test_write_file(yk_test_path("libcunothing.so.1"), "no library", 10);
    snprintf(folders, sizeof folders, "/nowhere:%s", yk_test_directory());
    setenv("YOKE_CUDA_LIBS", folders, 1);
    assert_status(YK_ERROR_UNSUPPORTED, yki_cuda_library_open(&damaged, NULL));
    assert_contains(yk_last_error(), yk_test_path("libcunothing.so.1: file too short"));
}

/* cuDNN asks the loader for the compiler, which knows what is open. Any library will do. */
YK_TEST(the_compiler_is_found_in_the_folders_of_the_libraries)
{
    char folders[1024], output[256];
    const yki_cudnn *cudnn;
    assert_int_equal(yk_test_command(output, sizeof output,
                                     "cp $YOKE_CUDA_LIBS/libcublasLt.so.13 %s/libnvrtc.so.13",
                                     yk_test_directory()),
                     0);
    snprintf(folders, sizeof folders, "%s:%s", getenv("YOKE_CUDA_LIBS"), yk_test_directory());
    setenv("YOKE_CUDA_LIBS", folders, 1);
    assert_null(dlopen(yk_test_path("libnvrtc.so.13"), RTLD_NOW | RTLD_NOLOAD));
    yki_cuda_device *device = open_device(NULL);
    assert_ok(yki_cuda_need_cudnn(device, &cudnn));
    assert_non_null(dlopen(yk_test_path("libnvrtc.so.13"), RTLD_NOW | RTLD_NOLOAD));
    device->base.type->destroy(&device->base);
}

/* ---- on disk --------------------------------------------------------------------------------- */

/* The one file that there is. */
static void find_file(char path[YKI_PLAN_PATH])
{
    char folder[YKI_PLAN_PATH];
    int count = 0;
    yki_plan_cache_folder(folder, "Some GPU-132", "cudnn-9.19.0");
    DIR *open = opendir(folder);
    assert_non_null(open);
    for (struct dirent *entry; (entry = readdir(open));)
        if (entry->d_name[0] != '.') {
            snprintf(path, YKI_PLAN_PATH, "%s/%s", folder, entry->d_name);
            count++;
        }
    closedir(open);
    assert_int_equal(count, 1);
}

/* The tests' environment has none, and does not measure. */
static void use_new_cache(void)
{
    setenv("XDG_CACHE_HOME", yk_test_directory(), 1);
    unsetenv("YOKE_CUDA_MEASURE");
}

YK_TEST(the_fastest_engine_is_kept)
{
    char path[YKI_PLAN_PATH];
    use_new_cache();
    assert_int_equal(choose(second_is_fastest, &problem), COMPILED);
    assert_int_equal(measured, 3 * RUNS);
    find_file(path);
    assert_contains(path, "/yoke/plans/Some-GPU-132-cudnn-9.19.0/");
    assert_int_equal(choose(second_is_fastest, &problem), COMPILED);
    assert_int_equal(measured, 3 * RUNS);
}

/* A plan that was kept with Winograd's algorithm permitted is none for a run without it. */
YK_TEST(plans_with_winograd_are_kept_apart)
{
    use_new_cache();
    yki_cuda_device *device = open_device(NULL);
    device->winograd = true;
    assert_int_equal(engine_of(device, &problem), WINOGRAD);
    device->base.type->destroy(&device->base);
    assert_int_equal(choose(NULL, &problem), FIRST_GOOD);
}

YK_TEST(what_was_not_measured_is_measured_once)
{
    use_new_cache();
    assert_int_equal(choose(NULL, &problem), FIRST_GOOD);
    setenv("YOKE_CUDA_MEASURE", "0", 1);
    assert_int_equal(choose(second_is_fastest, &problem), FIRST_GOOD);
    assert_int_equal(measured, 0);
    unsetenv("YOKE_CUDA_MEASURE");
    assert_int_equal(choose(second_is_fastest, &problem), COMPILED);
    setenv("YOKE_CUDA_MEASURE", "0", 1);
    assert_int_equal(choose(second_is_fastest, &problem), COMPILED);
    assert_int_equal(measured, 3 * RUNS);
}

YK_TEST(damaged_files_are_written_again)
{
    char path[YKI_PLAN_PATH];
    use_new_cache();
    choose(second_is_fastest, &problem);
    find_file(path);
    for (long bytes = 0; bytes < 2000; bytes += 400) {
        measured = 0;
        assert_int_equal(truncate(path, bytes), 0);
        assert_int_equal(choose(second_is_fastest, &problem), COMPILED);
        assert_int_equal(measured, 3 * RUNS);
    }
    FILE *file = fopen(path, "r+");
    fseek(file, -5, SEEK_END);
    fputc('!', file);
    fclose(file);
    choose(second_is_fastest, &problem);
    assert_int_equal(measured, 6 * RUNS);
    find_file(path);
}

/* All ranks of a machine are to run on the same engines, as they do in the next run. */
YK_TEST(a_plan_that_another_rank_is_choosing_is_awaited)
{
    char path[YKI_PLAN_PATH], folder[YKI_PLAN_PATH], text[YKI_CUDNN_CONV_TEXT];
    double microseconds;
    int status;
    use_new_cache();
    choose(second_is_fastest, &problem);
    find_file(path);
    yki_plan_cache_folder(folder, "Some GPU-132", "cudnn-9.19.0");
    yki_cudnn_conv_text(&problem, text);
    char *plan = yki_plan_cache_read(folder, text, &microseconds);
    assert_non_null(plan);
    assert_int_equal(unlink(path), 0);
    int lock = yki_plan_cache_lock(folder, 1);
    assert_true(lock >= 0);
    measured = 0;
    pid_t rank = yk_test_fork();
    if (rank == 0) {
        choose(second_is_fastest, &problem);
        _exit(measured ? 1 : 0);
    }
    usleep(100000); /* for the other rank to come to the lock; it must not measure in any case */
    yki_plan_cache_write(folder, text, microseconds, plan);
    yki_plan_cache_unlock(lock);
    free(plan);
    assert_int_equal(waitpid(rank, &status, 0), rank);
    assert_int_equal(status, 0);
}

YK_TEST(a_plan_of_another_problem_is_not_taken)
{
    char folder[YKI_PLAN_PATH];
    double microseconds;
    use_new_cache();
    yki_plan_cache_folder(folder, "Some GPU-132", "cudnn-9.19.0");
    yki_plan_cache_write(folder, "this", 5, "text\nof this");
    char *text = yki_plan_cache_read(folder, "this", &microseconds);
    assert_string_equal(text, "text\nof this");
    assert_true(microseconds == 5);
    free(text);
    assert_null(yki_plan_cache_read(folder, "thi", &microseconds));
    assert_null(yki_plan_cache_read(folder, "that", &microseconds));
    yki_plan_cache_folder(folder, "Some GPU-132", "cudnn-9.20.0");
    assert_null(yki_plan_cache_read(folder, "this", &microseconds));
}

YK_TEST(a_cache_that_cannot_be_written_is_no_failure)
{
    setenv("XDG_CACHE_HOME", "/dev/null", 1);
    unsetenv("YOKE_CUDA_MEASURE");
    assert_int_equal(choose(second_is_fastest, &problem), COMPILED);
    assert_int_equal(choose(second_is_fastest, &problem), COMPILED);
    assert_int_equal(measured, 6 * RUNS);
}

/* ---- foresight ------------------------------------------------------------------------------- */

/* How many plans the stand-in has made at the same time; begins again. */
static int most_at_once(void)
{
    char path[512];
    snprintf(path, sizeof path, "%s/libcudnn.so.9", getenv("YOKE_CUDA_LIBS"));
    atomic_int *most = dlsym(dlopen(path, RTLD_NOW), "yk_cudnn_most_at_once");
    assert_non_null(most);
    return atomic_exchange(most, 0);
}

/* Images of `count` sizes. */
static void foresee(yki_cuda_device *device, int count)
{
    const yki_cudnn *cudnn;
    assert_ok(yki_cuda_need_cudnn(device, &cudnn));
    for (int i = 0; i < count; i++) {
        yki_cudnn_conv conv = problem;
        conv.x[0] = conv.y[0] = i + 1;
        yki_cuda_conv_foresee(device, cudnn, &conv);
    }
}

static void expect_engines(yki_cuda_device *device, int count)
{
    for (int i = 0; i < count; i++) {
        yki_cudnn_conv conv = problem;
        conv.x[0] = conv.y[0] = i + 1;
        assert_int_equal(engine_of(device, &conv), COMPILED);
    }
}

/* Whether one asks or many: the same engines are measured. */
YK_TEST(what_is_foreseen_is_made_at_once)
{
    enum { COUNT = 3 };
    int cores = yki_cores_available();
    use_new_cache();
    setenv("YK_FAKE_CUDNN_US", "20000", 1);
    yki_cuda_device *device = open_device(second_is_fastest);
    foresee(device, COUNT);
    foresee(device, COUNT); /* evaluation has the same convolutions */
    expect_engines(device, COUNT);
    yki_cuda_conv_foreseen(device);
    assert_int_equal(measured, COUNT * 3 * RUNS);
    assert_in_range(most_at_once(), cores > 1 ? 2 : 1, cores);
    device->base.type->destroy(&device->base);

    device = open_device(second_is_fastest); /* all of them are kept */
    foresee(device, COUNT);
    expect_engines(device, COUNT);
    yki_cuda_conv_foreseen(device);
    assert_int_equal(measured, COUNT * 3 * RUNS);
    assert_int_equal(most_at_once(), 0);
    device->base.type->destroy(&device->base);
}

YK_TEST(what_is_foreseen_and_not_asked_for_is_forgotten)
{
    use_new_cache();
    yki_cuda_device *device = open_device(second_is_fastest);
    foresee(device, 3);
    expect_engines(device, 1);
    assert_non_null(device->candidates);
    yki_cuda_conv_foreseen(device);
    assert_null(device->candidates);
    expect_engines(device, 2);
    foresee(device, 3);
    device->base.type->destroy(&device->base);
}

YK_TEST(ranks_wait_for_what_another_has_foreseen)
{
    int status;
    use_new_cache();
    yki_cuda_device *device = open_device(second_is_fastest);
    foresee(device, 1);
    pid_t rank = yk_test_fork();
    if (rank == 0) {
        choose(second_is_fastest, &problem);
        _exit(measured ? 1 : 0);
    }
    usleep(100000); /* for the other rank to come to the lock; it must not measure in any case */
    expect_engines(device, 1);
    yki_cuda_conv_foreseen(device);
    assert_int_equal(waitpid(rank, &status, 0), rank);
    assert_int_equal(status, 0);
    device->base.type->destroy(&device->base);
}

/* ---- convolutions with sums ------------------------------------------------------------------ */

/* In bf16, the stand-in has four candidates for each graph. The plans without sums are measured
 * first, then those with sums, then the fastest of the first with batch_norm's pass. */
enum { PLAIN_RUNS = 4 * RUNS, ALL_RUNS = 9 * RUNS };
static double separate_seconds;

static double with_sums_or_separate(void)
{
    int run = measured++ % ALL_RUNS;
    return run < PLAIN_RUNS ? 1e-3 : run < 2 * PLAIN_RUNS ? 2e-3 : separate_seconds;
}

static bool chooses_sums_on(yki_cuda_device *device, yk_dtype dtype)
{
    yki_cudnn_conv conv = problem;
    conv.dtype = dtype;
    conv.sums = true;
    const yki_cudnn *cudnn;
    const yki_cudnn_plan *plan;
    assert_ok(yki_cuda_need_cudnn(device, &cudnn));
    assert_ok(yki_cuda_conv_plan(device, cudnn, &conv, &plan));
    device->base.type->destroy(&device->base);
    return plan != NULL;
}

static bool chooses_sums(yk_dtype dtype)
{
    return chooses_sums_on(open_device(with_sums_or_separate), dtype);
}

/* At most as long as both; what was chosen is kept. */
YK_TEST(sums_are_taken_where_they_save_time)
{
    use_new_cache();
    separate_seconds = 2e-3;
    assert_true(chooses_sums(YK_BF16));
    assert_int_equal(measured, ALL_RUNS);
    assert_true(chooses_sums(YK_BF16));
    assert_int_equal(measured, ALL_RUNS);
    separate_seconds = 1.9e-3;
    assert_false(chooses_sums(YK_F16));
    assert_int_equal(measured, 2 * ALL_RUNS);
    assert_false(chooses_sums(YK_F16));
    assert_int_equal(measured, 2 * ALL_RUNS);
}

YK_TEST(without_measuring_sums_are_taken_where_there_are_any)
{
    assert_true(chooses_sums(YK_BF16));
    assert_int_equal(measured, 0);
    assert_false(chooses_sums(YK_F32)); /* no engine gives them */
}

/* ---- short memory ---------------------------------------------------------------------------- */

static size_t most_bytes; /* of one block */

static yk_status alloc_little(yki_device *device, size_t bytes, void **memory)
{
    if (bytes > most_bytes)
        return yki_error_memory(bytes, "the test");
    return yki_host_memory.alloc(device, bytes, memory);
}

/* A device on which blocks of more bytes cannot be allocated. */
static yki_cuda_device *open_small_device(double (*seconds)(void), size_t bytes)
{
    static yki_memory_ops memory;
    static yki_device_type type;
    yki_cuda_device *device = open_device(seconds);
    memory = yki_host_memory;
    memory.alloc = alloc_little;
    type = *device->base.type;
    type.memory = &memory;
    device->base.type = &type;
    most_bytes = bytes;
    return device;
}

static int count_files(void)
{
    char output[64];
    assert_int_equal(yk_test_command(output, sizeof output, "find %s -name '*.plan' | wc -l",
                                     yk_test_directory()),
                     0);
    return atoi(output);
}

/* The next run finds out which is the fastest, or what does not depend on memory. */
YK_TEST(what_cannot_be_measured_is_not_kept)
{
    use_new_cache();
    yki_cuda_device *device = open_small_device(second_is_fastest, 16);
    assert_int_equal(engine_of(device, &problem), FIRST_GOOD);
    device->base.type->destroy(&device->base);
    assert_false(chooses_sums_on(open_small_device(with_sums_or_separate, 16), YK_BF16));
    assert_int_equal(measured, 0);
    assert_int_equal(count_files(), 0);
    assert_int_equal(choose(second_is_fastest, &problem), COMPILED);
    assert_int_equal(count_files(), 1);
}

YK_TEST(without_room_to_empty_caches_plans_are_measured)
{
    use_new_cache();
    yki_cuda_device *device = open_small_device(second_is_fastest, 1 << 20);
    device->cache_bytes = 2 << 20;
    assert_int_equal(engine_of(device, &problem), COMPILED);
    assert_int_equal(measured, 3 * RUNS);
    device->base.type->destroy(&device->base);
}
