/* Training on a folder of one's own pictures, from files to predictions; Pillow draws them. */
#define _GNU_SOURCE
#include "../launcher/job.h"
#include "pytorch.h"

#include "harness.h"

static char said[64 * 1024];

/* Runs `yoke WORDS` in the test's folder; returns the exit code. */
static int yoke(const char *words)
{
    return yk_test_command(said, sizeof said, "cd %s && %s %s", yk_test_directory(), test_program(),
                           words);
}

static void yoke_succeeds(const char *words)
{
    if (yoke(words) != 0)
        fail_msg("yoke %s: %s", words, said);
}

/* Draws pictures of up to `side` pixels a side into the test's folder. */
static void draw_pictures(int train, int val, int side)
{
    yk_reader *reader;
    yk_dataset *dataset;
    char path[256];
    pytorch_judges("own_pictures.py", "%s %d %d %d", yk_test_directory(), train, val, side);
    snprintf(path, sizeof path, "%s/pictures", yk_test_directory());
    assert_ok(yk_folder_open(&dataset, path, YK_SPLIT_TRAIN));
    if (yk_reader_create(&reader, dataset) != YK_OK)
        skip_because("%s", yk_last_error());
    yk_reader_destroy(reader);
    yk_dataset_destroy(dataset);
}

/* How many pictures of a class were given its name: lines "pictures/val/CLASS/0000.jpg: CLASS". */
static int recognised(const char *class)
{
    char line[128];
    int right = 0;
    for (int i = 0; i < 4; i++) {
        snprintf(line, sizeof line, "pictures/val/%s/%04d.jpg: %s ", class, i, class);
        right += strstr(said, line) != NULL;
    }
    return right;
}

YK_TEST(a_network_learns_a_folder_of_pictures_and_recognises_others)
{
    draw_pictures(600, 100, 500);
    /* The logits of resnet9 are scaled by 1/8: its learning rate is larger than others'. */
    yoke_succeeds("train --data folder:pictures --arch resnet9 --image-size 32 --augment cifar "
                  "--nproc 2 --threads 1 --batch-size 32 --epochs 8 --schedule onecycle --lr 0.15 "
                  "--output run");
    const char *accuracy = strstr(said, "Done after step 152: validation accuracy ");
    if (!accuracy || strtod(strpbrk(accuracy + 20, "0123456789"), NULL) < 95)
        fail_msg("%s", said);
    yoke_succeeds("predict run pictures/val/*/000[0-3].jpg");
    int right = recognised("cross") + recognised("disc") + recognised("ring") +
                recognised("stripes") + recognised("triangle");
    if (right < 19)
        fail_msg("%d of 20 pictures were recognised: %s", right, said);
}

/* Whether two files have the same bytes. */
static bool same_file(const char *one, const char *other)
{
    return yk_test_command(said, sizeof said, "cd %s && cmp %s %s", yk_test_directory(), one,
                           other) == 0;
}

/* The sum of the norms of a run's weights, which no other weights are likely to have. */
static double norms_of(const char *run)
{
    char path[256];
    double all = 0, norm;
    yk_tensor_file *file;
    snprintf(path, sizeof path, "%s/%s/model.pth", yk_test_directory(), run);
    assert_ok(yk_tensor_file_open(&file, path));
    for (size_t i = 0; i < yk_tensor_file_count(file); i++) {
        assert_ok(yk_tensor_file_norm(file, i, &norm));
        all += norm;
    }
    yk_tensor_file_close(file);
    return all;
}

static void train_small(const char *data, const char *run)
{
    char words[512];
    snprintf(words, sizeof words,
             "train --data '%s' --arch mlp --image-size 64 --augment cifar --nproc 2 --threads 1 "
             "--batch-size 8 --epochs 1 --lr 0.01 --output %s",
             data, run);
    yoke_succeeds(words);
}

YK_TEST(folder_shards_and_packed_files_train_to_the_same_bits)
{
    draw_pictures(40, 10, 120); /* none is decoded at half its size */
    yoke_succeeds("data pack folder:pictures --image-size 64 -o train.pack");
    yoke_succeeds("data pack folder:pictures --image-size 64 --split test -o val.pack");
    yk_test_command(said, sizeof said, "mkdir %s/files", yk_test_directory());
    yoke_succeeds("data pack folder:pictures --format files -o files/train.pack");
    yoke_succeeds("data pack folder:pictures --format files --split test -o files/val.pack");
    train_small("folder:pictures", "folder");
    train_small("pack:.", "pixels");
    train_small("pack:files", "packed");
    train_small("shards:train-{0..1}.tar::val.tar", "shards"); /* which have no class names */
    assert_true(same_file("folder/model.pth", "pixels/model.pth"));
    assert_true(same_file("folder/model.pth", "packed/model.pth"));
    assert_true(norms_of("folder") == norms_of("shards"));
}

YK_TEST(damaged_pictures_stop_training_or_are_skipped_and_counted)
{
    draw_pictures(20, 10, 120);
    yk_test_command(said, sizeof said,
                    "cd %s/pictures && truncate -s 900 train/disc/0001.jpg && "
                    ": > train/ring/0000.jpg && truncate -s 900 val/ring/0001.jpg",
                    yk_test_directory());
    const char *words = "train --data folder:pictures --arch mlp --image-size 16 --nproc 2 "
                        "--threads 1 --batch-size 4 --epochs 2 --lr 0.01";
    assert_int_equal(yoke(words), 1);
    assert_contains(said, "loader worker: epoch 1: sample ");
    char skipping[512];
    snprintf(skipping, sizeof skipping, "%s --skip-damaged --output run", words);
    yoke_succeeds(skipping);
    assert_int_equal(count(said, "damaged images skipped: 2 in training, 1 in validation"), 2);
    assert_contains(said, "sample 5, disc/0001.jpg: damaged JPEG");
    assert_int_equal(count(said, ", ring/0001.jpg: "), 1);
    yoke_succeeds("evaluate run --nproc 2"); /* which skips because training did */
    assert_contains(said, "of 10)");
    assert_contains(said, "damaged images skipped: 1");
    yoke_succeeds("report run -o report.html");
    assert_int_equal(count(said, ", ring/0001.jpg: "), 1);
}
