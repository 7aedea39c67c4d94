/*
 * Folders of checkpoints: which is the newest, what damage does, and kill -9 at random moments of
 * a save. YOKE_KILL_TRIES sets how often (120).
 */
#define _GNU_SOURCE
#include "harness.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/random.h"
#include "base/utf8.h"
#include "checkpoint/checkpoint_dir.h"
#include "checkpoint/manifest.h"
#include "kill.h"

static bool folders_fail;

typedef struct dirent *readdir_function(DIR *folder);

/* Takes the place of the C library's function. */
struct dirent *readdir(DIR *folder)
{
    readdir_function *real = (readdir_function *)dlsym(RTLD_NEXT, "readdir");
    if (!folders_fail)
        return real(folder);
    errno = EIO;
    return NULL;
}

static yk_model *make_model(void)
{
    yk_graph *graph = yk_graph_create();
    yk_value *x = yk_input(graph, "images", YK_F32, 4, (int64_t[]){YK_BATCH, 3, 4, 4});
    yk_value *labels = yk_input(graph, "labels", YK_I32, 1, (int64_t[]){YK_BATCH});
    yk_model *model;
    assert_ok(yk_model_create(&model, yk_cross_entropy(yk_mlp(x, 10), labels, NULL),
                              YK_WITH(yk_model_options, YK_MODEL_OPTIONS_INIT, o.device = "ref")));
    return model;
}

/* Every weight of checkpoint number E is E. */
static void fill(yk_model *model, double value)
{
    for (size_t i = 0; i < yk_model_parameter_count(model); i++) {
        yk_tensor tensor = yk_model_parameter(model, i).value;
        for (int64_t k = 0; k < yk_tensor_count(&tensor); k++)
            ((float *)tensor.data)[k] = (float)value;
    }
}

static void assert_filled(const yk_model *model, double value)
{
    for (size_t i = 0; i < yk_model_parameter_count(model); i++) {
        yk_tensor tensor = yk_model_parameter(model, i).value;
        for (int64_t k = 0; k < yk_tensor_count(&tensor); k++)
            if (((float *)tensor.data)[k] != (float)value)
                fail_msg("%s holds %g, not %g", yk_model_parameter(model, i).name,
                         (double)((float *)tensor.data)[k], value);
    }
}

static yk_status save(const char *dir, yk_model *model, int64_t epoch, int keep)
{
    yk_training_state training = {.arch = "mlp", .epoch = epoch, .step = epoch * 10};
    fill(model, (double)epoch);
    return yk_checkpoint_dir_save(dir, model, NULL, &training, keep);
}

static void assert_latest(const char *dir, yk_model *model, int64_t epoch)
{
    char path[512];
    yk_training_state training;
    assert_ok(yk_checkpoint_dir_latest(dir, path, sizeof path));
    fill(model, -1);
    assert_ok(yk_checkpoint_load(path, model, NULL, &training));
    assert_int_equal(training.epoch, epoch);
    assert_filled(model, (double)epoch);
}

/* A folder of one case alone. */
static const char *folder(const char *name)
{
    static char path[256];
    snprintf(path, sizeof path, "%s/%s", yk_test_directory(), name);
    return path;
}

static const char *in(const char *dir, const char *name)
{
    static char path[512];
    snprintf(path, sizeof path, "%s/%.200s", dir, name);
    return path;
}

static bool exists(const char *path)
{
    return access(path, F_OK) == 0;
}

static void overwrite(const char *path, long offset, const char *text)
{
    FILE *file = fopen(path, "r+");
    assert_non_null(file);
    fseek(file, offset, SEEK_SET);
    fputs(text, file);
    fclose(file);
}

/* Damaged ones are warned of, which a passing test should not show. */
static void hush(void)
{
    setenv("YOKE_LOG", "error", 1);
}

YK_TEST(a_path_without_room_is_an_error)
{
    yk_model *model = make_model();
    char path[512] = "kept";
    assert_ok(save(folder("run"), model, 1, 3));
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_checkpoint_dir_latest(folder("run"), path, 0));
    assert_string_equal(path, "kept");
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_checkpoint_dir_latest(folder("run"), path, 8));
    assert_contains(yk_last_error(), " bytes, and there is room for 8");
    yk_model_destroy(model);
}

YK_TEST(an_empty_folder_holds_none)
{
    char path[512];
    assert_status(YK_ERROR_NOT_FOUND,
                  yk_checkpoint_dir_latest(yk_test_directory(), path, sizeof path));
    assert_contains(yk_last_error(), "holds no checkpoint");
}

/* A run that is resumed would begin anew. */
YK_TEST(a_folder_that_cannot_be_read_is_an_error)
{
    yk_model *model = make_model();
    char path[512];
    assert_ok(save(folder("run"), model, 1, 3));
    folders_fail = true;
    assert_status(YK_ERROR_IO, yk_checkpoint_dir_latest(folder("run"), path, sizeof path));
    assert_contains(yk_last_error(), "run: cannot read the folder: Input/output error");
    folders_fail = false;
    assert_latest(folder("run"), model, 1);
    yk_model_destroy(model);
}

YK_TEST(keeps_the_newest_and_makes_its_folder)
{
    yk_model *model = make_model();
    const char *dir = folder("a/b/run");
    char path[512];
    assert_status(YK_ERROR_NOT_FOUND, yk_checkpoint_dir_latest(dir, path, sizeof path));
    for (int64_t epoch = 1; epoch <= 5; epoch++)
        assert_ok(save(dir, model, epoch, 2));
    assert_latest(dir, model, 5);
    assert_true(exists(in(dir, "checkpoint-5.pth")) && exists(in(dir, "checkpoint-4.pth")));
    for (int old = 1; old <= 3; old++) {
        char name[32];
        snprintf(name, sizeof name, "checkpoint-%d.pth", old);
        assert_false(exists(in(dir, name)));
    }
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_checkpoint_dir_latest(dir, path, 8));
    fill(model, -1);
    assert_ok(yk_model_load(model, in(dir, "model.pth")));
    assert_filled(model, 5);
    yk_model_destroy(model);
}

/* The checkpoint that is being written may then be all that is left of the run. */
YK_TEST(a_folder_that_is_removed_during_a_save_is_made_again)
{
    yki_dir_save saving;
    char output[256];
    yk_model *model = make_model();
    const char *dir = folder("run");
    hush();
    assert_ok(save(dir, model, 1, 2));
    fill(model, 2);
    assert_ok(yki_dir_save_prepare(&saving, dir, model, NULL, &(yk_training_state){.epoch = 2}, 2));
    assert_int_equal(yk_test_command(output, sizeof output, "rm -r %s", dir), 0);
    assert_ok(yki_dir_save_write(&saving));
    assert_latest(dir, model, 2);
    assert_ok(yk_model_load(model, in(dir, "model.pth")));
    assert_ok(save(dir, model, 3, 2));
    assert_latest(dir, model, 3);
    yk_model_destroy(model);
}

YK_TEST(within_an_epoch_it_is_named_after_the_step)
{
    yk_model *model = make_model();
    const char *dir = folder("step");
    yk_training_state training = {.epoch = 2, .step = 77, .epoch_batch = 7};
    assert_ok(yk_checkpoint_dir_save(dir, model, NULL, &training, YK_KEEP_ALL));
    assert_true(exists(in(dir, "checkpoint-step-77.pth")));
    assert_true(exists(in(dir, "manifest.json")));
    yk_model_destroy(model);
}

/* A run started anew in the same folder: its first checkpoint is newer than the old run's last. */
YK_TEST(newest_means_saved_last)
{
    yk_model *model = make_model();
    const char *dir = folder("anew");
    for (int64_t epoch = 1; epoch <= 3; epoch++)
        assert_ok(save(dir, model, epoch, YK_KEEP_ALL));
    assert_ok(save(dir, model, 1, YK_KEEP_ALL));
    assert_latest(dir, model, 1);
    yk_model_destroy(model);
}

/* As if the clock had been wrong until now, and ahead. */
static void save_in_an_hour(const char *dir, yk_model *model, int64_t epoch)
{
    yki_manifest manifest;
    assert_ok(save(dir, model, epoch, YK_KEEP_ALL));
    assert_ok(yki_manifest_read(&manifest, dir));
    manifest.entries[manifest.count - 1].saved_at += 3600;
    assert_ok(yki_manifest_write(&manifest, dir));
    yki_manifest_fini(&manifest);
}

YK_TEST(a_clock_that_is_set_back_changes_no_order)
{
    yk_model *model = make_model();
    const char *dir = folder("clock");
    save_in_an_hour(dir, model, 1);
    for (int64_t epoch = 2; epoch <= 4; epoch++) {
        assert_ok(save(dir, model, epoch, YK_KEEP_ALL));
        assert_latest(dir, model, epoch);
    }
    assert_int_equal(unlink(in(dir, "manifest.json")), 0); /* the files' times are enough */
    assert_latest(dir, model, 4);
    yk_model_destroy(model);
}

/* A user's copy is younger than all checkpoints. */
YK_TEST(a_copy_under_another_name_is_no_checkpoint)
{
    static const char *const names[] = {"best.pth", "1.pth.pth", "1 (copy).pth", "step-.pth",
                                        "123456789012345678901.pth"};
    yk_model *model = make_model();
    const char *dir = folder("copies");
    char output[256], path[512];
    assert_ok(save(dir, model, 1, YK_KEEP_ALL));
    assert_ok(save(dir, model, 2, YK_KEEP_ALL));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_int_equal(yk_test_command(output, sizeof output,
                                         "cp '%s/checkpoint-1.pth' '%s/checkpoint-%s'", dir, dir,
                                         names[i]),
                         0);
    assert_latest(dir, model, 2);
    assert_int_equal(unlink(in(dir, "checkpoint-1.pth")), 0);
    assert_int_equal(unlink(in(dir, "checkpoint-2.pth")), 0);
    assert_status(YK_ERROR_NOT_FOUND, yk_checkpoint_dir_latest(dir, path, sizeof path));
    yk_model_destroy(model);
}

YK_TEST(damaged_ones_are_skipped)
{
    hush();
    yk_model *model = make_model();
    const char *dir = folder("damaged");
    char path[512];
    for (int64_t epoch = 1; epoch <= 4; epoch++)
        assert_ok(save(dir, model, epoch, YK_KEEP_ALL));
    overwrite(in(dir, "checkpoint-4.pth"), 5000, "flipped");
    assert_latest(dir, model, 3);
    assert_int_equal(truncate(in(dir, "checkpoint-3.pth"), 100), 0);
    assert_latest(dir, model, 2);
    yk_training_state newest;
    assert_ok(yk_checkpoint_dir_read_state(dir, &newest));
    assert_int_equal(newest.epoch, 2);
    unlink(in(dir, "checkpoint-2.pth"));
    assert_latest(dir, model, 1);
    overwrite(in(dir, "checkpoint-1.pth"), 0, "no zip");
    assert_status(YK_ERROR_FORMAT, yk_checkpoint_dir_latest(dir, path, sizeof path));
    assert_contains(yk_last_error(), "no complete checkpoint among 3");
    yk_model_destroy(model);
}

/* Everyone may read it but the user who resumes; root may read all. */
YK_TEST(one_that_may_not_be_read_is_an_error)
{
    const uid_t nobody = 65534, self = geteuid();
    yk_model *model = make_model();
    const char *dir = folder("forbidden");
    char path[512];
    assert_ok(save(dir, model, 1, YK_KEEP_ALL));
    assert_ok(save(dir, model, 2, YK_KEEP_ALL));
    assert_int_equal(chmod(in(dir, "checkpoint-2.pth"), 0077), 0);
    if (self == 0 &&
        (chmod(yk_test_directory(), 0711) != 0 || chown(dir, nobody, (gid_t)-1) != 0 ||
         chown(in(dir, "checkpoint-2.pth"), nobody, (gid_t)-1) != 0 || seteuid(nobody) != 0))
        skip_because("this process may not act as another user");
    yk_status status = yk_checkpoint_dir_latest(dir, path, sizeof path);
    assert_int_equal(seteuid(self), 0);
    assert_status(YK_ERROR_DENIED, status);
    assert_contains(yk_last_error(), "checkpoint-2.pth");
    assert_contains(yk_last_error(), "Permission denied");
    yk_model_destroy(model);
}

YK_TEST(does_without_the_manifest)
{
    hush();
    yk_model *model = make_model();
    const char *dir = folder("manifest");
    for (int64_t epoch = 1; epoch <= 3; epoch++)
        assert_ok(save(dir, model, epoch, YK_KEEP_ALL));
    unlink(in(dir, "manifest.json"));
    assert_latest(dir, model, 3);
    overwrite(in(dir, "checkpoint-3.pth"), 5000, "flipped"); /* found by its CRC */
    assert_latest(dir, model, 2);
    FILE *file = fopen(in(dir, "manifest.json"), "w");
    fputs("{\"version\": 1, \"checkpoints\": [{\"file\": \"../../etc/passwd\"}]}", file);
    fclose(file);
    assert_latest(dir, model, 2);
    assert_ok(save(dir, model, 4, YK_KEEP_ALL));
    assert_latest(dir, model, 4);
    yk_model_destroy(model);
}

YK_TEST(a_damaged_manifest_says_where)
{
    yki_manifest manifest;
    const char *dir = folder("where");
    assert_int_equal(mkdir(dir, 0777), 0);
    FILE *file = fopen(in(dir, "manifest.json"), "w");
    fputs("{\"version\": 1, checkpoints: []}", file);
    fclose(file);
    assert_status(YK_ERROR_FORMAT, yki_manifest_read(&manifest, dir));
    assert_contains(yk_last_error(), "manifest.json: offset 16: expected JSON");
    yki_manifest_fini(&manifest);
}

/* Writes a manifest of so many checkpoints. */
static yk_status list_many(const char *dir, int count)
{
    yki_manifest manifest = {.count = 0};
    for (int i = 1; i <= count; i++) {
        yki_manifest_entry entry = {.epoch = i, .step = i, .bytes = 4096, .saved_at = 1.7e9 + i};
        snprintf(entry.file, sizeof entry.file, "checkpoint-%d.pth", i);
        memset(entry.sha256, 'a', sizeof entry.sha256 - 1);
        assert_ok(yki_manifest_append(&manifest, &entry));
    }
    yk_status status = yki_manifest_write(&manifest, dir);
    yki_manifest_fini(&manifest);
    return status;
}

/* That of a run which keeps all checkpoints. */
YK_TEST(a_manifest_of_many_checkpoints_is_read)
{
    yki_manifest manifest;
    yk_model *model = make_model();
    const char *dir = folder("many");
    assert_int_equal(mkdir(dir, 0777), 0);
    assert_ok(list_many(dir, 30000));
    assert_ok(save(dir, model, 30001, YK_KEEP_ALL));
    assert_ok(yki_manifest_read(&manifest, dir));
    assert_int_equal(manifest.count, 30001);
    yki_manifest_fini(&manifest);
    assert_status(YK_ERROR_UNSUPPORTED, list_many(dir, 200000));
    assert_contains(yk_last_error(), "manifest.json: cannot list 200000 checkpoints");
    assert_ok(yki_manifest_read(&manifest, dir)); /* the old one is still there */
    assert_int_equal(manifest.count, 30001);
    yki_manifest_fini(&manifest);
    yk_model_destroy(model);
}

/* Whoever opened it to read would wait for a writer. */
YK_TEST(promise_31_pipes_in_the_folder)
{
    hush();
    yk_model *model = make_model();
    const char *dir = folder("pipes");
    assert_ok(save(dir, model, 1, YK_KEEP_ALL));
    assert_ok(save(dir, model, 2, YK_KEEP_ALL));
    alarm(10);
    unlink(in(dir, "checkpoint-2.pth"));
    assert_int_equal(mkfifo(in(dir, "checkpoint-2.pth"), 0600), 0);
    assert_latest(dir, model, 1);
    unlink(in(dir, "manifest.json"));
    assert_int_equal(mkfifo(in(dir, "manifest.json"), 0600), 0);
    assert_latest(dir, model, 1);
    yk_model_destroy(model);
}

YK_TEST(left_over_temporary_files_go)
{
    yk_model *model = make_model();
    const char *dir = folder("temporary");
    assert_ok(save(dir, model, 1, YK_KEEP_ALL));
    FILE *file = fopen(in(dir, "checkpoint-9.pth.tmp"), "w");
    fclose(file);
    assert_ok(save(dir, model, 1, YK_KEEP_ALL));
    assert_false(exists(in(dir, "checkpoint-9.pth.tmp")));
    assert_false(exists(in(dir, "checkpoint-1.pth.tmp")));
    yk_model_destroy(model);
}

/* While a damaged file is read, which takes a while, a run saves its next checkpoint and deletes
 * the one before. */
YK_TEST(the_newest_is_found_while_a_run_goes_on)
{
    hush();
    yk_model *model = make_model();
    const char *dir = folder("going");
    char path[512];
    int status;
    assert_ok(save(dir, model, 1, YK_KEEP_ALL));
    assert_ok(save(dir, model, 2, YK_KEEP_ALL));
    assert_int_equal(truncate(in(dir, "checkpoint-2.pth"), (off_t)1 << 30), 0);
    pid_t pid = yk_test_fork();
    if (pid == 0) {
        usleep(50000);
        unlink(in(dir, "checkpoint-1.pth"));
        _exit(save(dir, model, 3, YK_KEEP_ALL) != YK_OK);
    }
    assert_ok(yk_checkpoint_dir_latest(dir, path, sizeof path));
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_latest(dir, model, 3);
    yk_model_destroy(model);
}

/* ---- a death before the manifest is written -------------------------------------------------- */

/* Saves in a process that dies as soon as the checkpoint has its name. */
static void die_saving(const char *dir, yk_model *model, int64_t epoch)
{
    char name[512];
    int status;
    snprintf(name, sizeof name, "%s/checkpoint-%d.pth", dir, (int)epoch);
    pid_t pid = yk_test_fork();
    if (pid == 0) {
        yk_test_last_name = name;
        save(dir, model, epoch, 2);
        _exit(1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    assert_true(exists(name));
}

YK_TEST(one_that_was_not_listed_is_deleted_in_its_turn)
{
    yk_model *model = make_model();
    const char *dir = folder("unlisted");
    assert_ok(save(dir, model, 1, 2));
    die_saving(dir, model, 2);
    assert_latest(dir, model, 2);
    assert_ok(save(dir, model, 3, 2));
    assert_true(exists(in(dir, "checkpoint-2.pth")));
    assert_false(exists(in(dir, "checkpoint-1.pth"))); /* it would be, were 2 not counted */
    assert_ok(save(dir, model, 4, 2));
    assert_false(exists(in(dir, "checkpoint-2.pth")));
    assert_latest(dir, model, 4);
    yk_model_destroy(model);
}

/* It has replaced the one that was not listed, or was never of this run. */
YK_TEST(a_file_that_a_user_has_put_there_stays)
{
    yk_model *model = make_model();
    const char *dir = folder("users");
    char output[256];
    assert_ok(save(dir, model, 1, 2));
    die_saving(dir, model, 2);
    for (int copy = 2; copy <= 9; copy += 7)
        assert_int_equal(yk_test_command(output, sizeof output,
                                         "cp '%s/checkpoint-1.pth' '%s/checkpoint-%d.pth'", dir,
                                         dir, copy),
                         0);
    for (int64_t epoch = 3; epoch <= 6; epoch++)
        assert_ok(save(dir, model, epoch, 2));
    assert_true(exists(in(dir, "checkpoint-2.pth")) && exists(in(dir, "checkpoint-9.pth")));
    assert_false(exists(in(dir, "checkpoint-4.pth")));
    yk_model_destroy(model);
}

/* ---- promise 14 ----------------------------------------------------------------------------- */

/* Saves one checkpoint after another until it is killed; tells which it was sure of. */
static void save_for_ever(const char *dir, yk_model *model, int64_t epoch,
                          volatile int64_t *completed)
{
    for (;; epoch++) {
        if (save(dir, model, epoch, 3) != YK_OK) {
            fprintf(stderr, "%s\n", yk_last_error());
            _exit(1);
        }
        *completed = epoch;
    }
}

YK_TEST(promise_14_kill_9_at_random_moments_of_a_save)
{
    const char *wanted = getenv("YOKE_KILL_TRIES");
    int tries = wanted ? atoi(wanted) : 120;
    yk_model *model = make_model();
    const char *dir = folder("killed");
    volatile int64_t *completed =
        mmap(NULL, sizeof *completed, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    yk_test_count_steps();
    assert_ok(save(dir, model, 1, 3));
    uint64_t steps = 4 * (uint64_t)yk_test_steps(); /* a few saves */
    *completed = 1;
    int64_t newest = 1;
    for (int try = 0; try < tries; try++) {
        pid_t pid = yk_test_fork();
        if (pid == 0)
            save_for_ever(dir, model, newest + 1, completed);
        yk_test_kill_after(pid, (int64_t)(yki_hash3(14, 0, (uint64_t)try) % steps));

        char path[512];
        yk_training_state training;
        assert_ok(yk_checkpoint_dir_latest(dir, path, sizeof path));
        fill(model, -1);
        assert_ok(yk_checkpoint_load(path, model, NULL, &training));
        assert_filled(model, (double)training.epoch);
        assert_ok(yk_model_load(model, in(dir, "model.pth"))); /* never older than that */
        yk_tensor first = yk_model_parameter(model, 0).value;
        assert_true(*(float *)first.data >= (float)training.epoch);
        if (training.epoch < *completed)
            fail_msg("try %d: checkpoint %d was complete, %s is the newest", try, (int)*completed,
                     path);
        newest = training.epoch;
    }
    assert_true(newest > 1); /* else it never got to save anything */
    munmap((void *)completed, sizeof *completed);
    yk_model_destroy(model);
}

YK_TEST(a_distributed_checkpoint_of_pytorch_is_named)
{
    char path[512], found[512];
    snprintf(path, sizeof path, "%s/.metadata", yk_test_directory());
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    fclose(file);
    assert_status(YK_ERROR_UNSUPPORTED,
                  yk_checkpoint_dir_latest(yk_test_directory(), found, sizeof found));
    assert_contains(yk_last_error(), "is a distributed checkpoint of PyTorch: convert it with");
    yk_tensor_file *tensors;
    assert_status(YK_ERROR_UNSUPPORTED, yk_tensor_file_open(&tensors, yk_test_directory()));
    assert_contains(yk_last_error(), "dcp_to_torch FOLDER FILE.pth");
}

/* ---- the job that has saved it --------------------------------------------------------------- */

static void be_attempt(const char *slurm_job, const char *run_id, const char *drawn)
{
    setenv("SLURM_JOB_ID", slurm_job, 1);
    setenv("SLURM_RESTART_COUNT", *slurm_job ? "1" : "0", 1);
    setenv("TORCHELASTIC_RUN_ID", run_id, 1);
    setenv("TORCHELASTIC_RESTART_COUNT", *run_id ? "1" : "0", 1);
    setenv("YOKE_JOB_ID", drawn, 1);
}

static bool is_restarted(const char *dir, const char *from, const char *file)
{
    char path[600];
    snprintf(path, sizeof path, "%s%s%s", from, *from ? "/" : "", file);
    return yk_checkpoint_dir_is_restarted(dir, path);
}

YK_TEST(a_checkpoint_is_of_the_job_that_has_saved_it)
{
    yk_model *model = make_model();
    const char *run = folder("run");
    be_attempt("77", "", "");
    assert_ok(save(run, model, 1, 3));
    assert_true(is_restarted(run, run, "checkpoint-1.pth"));
    assert_false(is_restarted(run, run, "checkpoint-2.pth"));
    setenv("SLURM_RESTART_COUNT", "0", 1);
    assert_false(is_restarted(run, run, "checkpoint-1.pth"));
    be_attempt("78", "", "");
    assert_false(is_restarted(run, run, "checkpoint-1.pth"));
    be_attempt("", "77", "");
    assert_false(is_restarted(run, run, "checkpoint-1.pth"));
    assert_false(yk_checkpoint_dir_is_restarted(NULL, "checkpoint-1.pth"));
    assert_false(yk_checkpoint_dir_is_restarted(run, NULL));
    yk_model_destroy(model);
}

/* Two runs have checkpoints of the same names. */
YK_TEST(a_checkpoint_of_another_folder_is_not_of_this_one)
{
    char run[256], other[256], link[256];
    yk_model *model = make_model();
    snprintf(run, sizeof run, "%s", folder("run"));
    snprintf(other, sizeof other, "%s", folder("other"));
    snprintf(link, sizeof link, "%s", folder("link"));
    be_attempt("77", "", "");
    assert_ok(save(run, model, 1, 3));
    be_attempt("78", "", "");
    assert_ok(save(other, model, 1, 3));
    assert_int_equal(symlink(run, link), 0);
    be_attempt("77", "", "");
    assert_false(is_restarted(run, other, "checkpoint-1.pth"));
    assert_false(is_restarted(run, "", "checkpoint-1.pth"));
    assert_true(is_restarted(run, link, "checkpoint-1.pth"));
    assert_int_equal(chdir(run), 0);
    assert_true(is_restarted(run, "", "checkpoint-1.pth"));
    yk_model_destroy(model);
}

/* A path, say, whose end is the same in all jobs. */
YK_TEST(names_of_jobs_may_be_long)
{
    char first[300], second[300];
    yk_model *model = make_model();
    const char *run = folder("run");
    memset(first, 'x', sizeof first);
    first[sizeof first - 1] = '\0';
    memcpy(second, first, sizeof second);
    second[0] = 'y';
    for (int drawn = 0; drawn < 2; drawn++) {
        be_attempt("", drawn ? "none" : first, drawn ? first : "");
        assert_ok(save(run, model, 1, 3));
        assert_true(is_restarted(run, run, "checkpoint-1.pth"));
        be_attempt("", drawn ? "none" : second, drawn ? second : "");
        assert_false(is_restarted(run, run, "checkpoint-1.pth"));
    }
    yk_model_destroy(model);
}

/* Other programs read the manifest. */
YK_TEST(names_of_jobs_need_not_be_utf_8)
{
    char text[4096];
    yk_model *model = make_model();
    const char *run = folder("run");
    be_attempt("", "none", "\xff of a folder");
    assert_ok(save(run, model, 1, 3));
    assert_true(is_restarted(run, run, "checkpoint-1.pth"));
    be_attempt("", "none", "\xfe of a folder");
    assert_false(is_restarted(run, run, "checkpoint-1.pth"));
    FILE *file = fopen(in(run, "manifest.json"), "r");
    assert_non_null(file);
    size_t size = fread(text, 1, sizeof text, file);
    fclose(file);
    assert_true(size > 0 && size < sizeof text && yki_utf8_is_valid(text, size));
    yk_model_destroy(model);
}
