/* The data of a resumed run: a folder that was named relatively, is gone, or holds other images. */
#define _GNU_SOURCE
#include "../data/cifar_files.h"
#include "going_on.h"

#define SMALL "--batch-size 20 "

static const char *folder_of(const char *name)
{
    static char path[256];
    snprintf(path, sizeof path, "%s/%s", yk_test_directory(), name);
    return path;
}

/* DIRECTORY/name with 5 x rows images to train on: 10 steps an epoch for 40 rows. */
static void write_images(const char *name, int rows)
{
    assert_int_equal(mkdir(folder_of(name), 0755), 0);
    write_cifar(folder_of(name), true, rows);
}

static void move(const char *from, const char *to)
{
    char old[256];
    snprintf(old, sizeof old, "%s", folder_of(from));
    assert_int_equal(rename(old, folder_of(to)), 0);
}

/* Resumes with DIRECTORY/data instead of the data that the checkpoint names. */
static int go_on_with(const char *name, const char *data, const char *options)
{
    char words[512];
    snprintf(words, sizeof words, "--data %s %s", folder_of(data), options);
    return go_on(name, words);
}

YK_TEST(a_run_with_relative_data_resumes_from_anywhere)
{
    write_images("images", 40);
    assert_int_equal(chdir(yk_test_directory()), 0);
    assert_int_equal(train("a", "--data images --max-steps 3 " SMALL), 0);
    assert_int_equal(chdir("/"), 0);
    move("a", "moved");
    assert_int_equal(go_on("moved", "--max-steps 6"), 0);
    assert_contains(job.output, "200 images");
    assert_contains(job.output, "Done after step 6: ");
}

YK_TEST(data_that_has_gone_missing_is_named)
{
    write_images("images", 40);
    assert_int_equal(chdir(yk_test_directory()), 0);
    assert_int_equal(train("a", "--data images --max-steps 3 " SMALL), 0);
    move("images", "elsewhere");
    assert_int_equal(go_on("a", "--max-steps 6"), 1);
    assert_contains(job.output, folder_of("images"));
    assert_contains(job.output, "name it with --data");
    assert_int_equal(go_on_with("a", "elsewhere", "--max-steps 6"), 0);
    assert_contains(job.output, "Done after step 6: ");
}

YK_TEST(other_data_waits_for_the_next_epoch)
{
    write_images("images", 40);
    write_images("others", 80);
    assert_int_equal(chdir(yk_test_directory()), 0);
    assert_int_equal(train("a", "--data images --max-steps 3 " SMALL), 0);
    assert_int_equal(go_on_with("a", "others", "--max-steps 6"), 1);
    assert_contains(job.output, "was saved within an epoch over the 200 images of ");
    assert_contains(job.output, "400 images: it cannot change before the next epoch");
    assert_int_equal(go_on("a", "--max-steps 10"), 0);
    assert_int_equal(go_on_with("a", "others", "--max-steps 12"), 0);
    assert_contains(job.output, "400 images");
    assert_contains(job.output, "Done after step 12: ");
}
