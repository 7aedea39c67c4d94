/* `yoke predict` as a user runs it. */
#define _GNU_SOURCE
#include "train_job.h"

#include "harness.h"

static char said[8192];

/* Predicts with the network of run "a"; the pictures are those of the decoders' tests. */
static int predict(const char *options)
{
    return yk_test_command(said, sizeof said, "cd %s/tests/fuzz/corpus && %s predict %s",
                           getenv("YOKE_SOURCE"), test_program(), options);
}

static const char *in_run(const char *run, const char *before, const char *pictures)
{
    static char text[1024];
    snprintf(text, sizeof text, "%s %s/%s %s", before, yk_test_directory(), run, pictures);
    return text;
}

static const char *with_run(const char *before, const char *pictures)
{
    return in_run("a", before, pictures);
}

static void make_run(void)
{
    assert_int_equal(train("a", "--max-steps 1"), 0);
    if (predict(with_run("", "png/grey_16")) != 0 && strstr(said, "install"))
        skip(); /* built without decoders */
}

YK_TEST(pictures_get_classes_and_probabilities)
{
    make_run();
    assert_int_equal(predict(with_run("--top 2", "jpeg/rgb_444 png/grey_16")), 0);
    assert_contains(said, "jpeg/rgb_444: ");
    assert_contains(said, "\npng/grey_16: ");
    assert_int_equal(count(said, " %"), 4);
    assert_int_equal(predict(with_run("--json --top 10", "jpeg/rgb_444")), 0);
    assert_contains(said, "{\"file\": \"jpeg/rgb_444\", \"predictions\": [{\"class\": ");
    assert_int_equal(count(said, "\"probability\": "), 10);
    assert_contains(said, "\"name\": \"disc\"");
}

YK_TEST(pictures_of_which_none_can_be_read_are_counted)
{
    make_run();
    assert_int_equal(predict(with_run("", "png/bomb jpeg/torn")), 1);
    assert_contains(said, "\nyoke: none of 2 pictures could be read\n");
}

/* Of a pipe nothing is known in advance, and it is read once. */
YK_TEST(pictures_come_from_pipes)
{
    char line[1024], alone[256];
    make_run();
    assert_int_equal(predict(with_run("", "jpeg/rgb_444")), 0);
    snprintf(alone, sizeof alone, "%s", strstr(said, ": "));
    snprintf(line, sizeof line,
             "cd %s/tests/fuzz/corpus && head -c 100000 jpeg/rgb_444 | %s predict %s/a /dev/stdin "
             "png/grey_16",
             getenv("YOKE_SOURCE"), test_program(), yk_test_directory());
    assert_int_equal(yk_test_command(said, sizeof said, "%s", line), 0);
    assert_contains(said, "/dev/stdin");
    assert_contains(said, alone);
    assert_contains(said, "\npng/grey_16: ");
    snprintf(line, sizeof line, ": | %s predict %s/a /dev/stdin", test_program(),
             yk_test_directory());
    assert_int_equal(yk_test_command(said, sizeof said, "%s", line), 1);
    assert_string_equal(said, "yoke: /dev/stdin: the file is empty\n");
}

YK_TEST(what_cannot_be_predicted_is_said)
{
    make_run();
    assert_int_equal(predict(with_run("", "")), 2);
    assert_contains(said, "expected CHECKPOINT and one IMAGE or more");
    assert_int_equal(predict(with_run("", "png/absent")), 2);
    assert_contains(said, "png/absent: No such file or directory");
    assert_int_equal(predict(with_run("", "png/bomb")), 1);
    assert_contains(said, "yoke: png/bomb: a picture of 60000 x 60000 pixels");
    assert_int_equal(predict("png/grey_16 png/grey_16"), 1);
    assert_int_equal(predict(with_run("", "png")), 2);
    assert_contains(said, "png: is a folder: name the pictures in it");
    assert_int_equal(predict(with_run("--device gpu", "png/grey_16")), 2);
    assert_contains(said, "yoke predict: --device \"gpu\": expected one of cpu, ref, sim, cuda");
}

YK_TEST(names_of_files_may_hold_anything)
{
    char words[1024];
    make_run();
    snprintf(words, sizeof words, "%%s %s/a png/grey_16 \"$(printf 'png/x\\377\\n\\303\\251')\"",
             yk_test_directory());
    char made[2048], line[2048];
    snprintf(made, sizeof made,
             "cd %s && mkdir -p png && cp %s/tests/fuzz/corpus/png/grey_16 png/ && "
             "cp png/grey_16 \"$(printf 'png/x\\377\\n\\303\\251')\" && %s predict ",
             yk_test_directory(), getenv("YOKE_SOURCE"), test_program());
    snprintf(line, sizeof line, words, "");
    assert_int_equal(yk_test_command(said, sizeof said, "%s %s", made, line), 0);
    assert_contains(said, "\npng/x\377?\303\251: ");
    snprintf(line, sizeof line, words, "--json");
    assert_int_equal(yk_test_command(said, sizeof said, "%s %s", made, line), 0);
    assert_contains(said, "{\"file\": \"png/x\\udcff\\u000a\303\251\", ");
}

YK_TEST(an_empty_file_is_skipped_like_a_damaged_picture)
{
    char pictures[512];
    make_run();
    assert_int_equal(yk_test_command(said, sizeof said, ": > %s/empty.jpg", yk_test_directory()),
                     0);
    snprintf(pictures, sizeof pictures, "%s/empty.jpg png/grey_16", yk_test_directory());
    assert_int_equal(predict(with_run("", pictures)), 1);
    assert_contains(said, "empty.jpg: the file is empty: skipped");
    assert_contains(said, "\npng/grey_16: ");
}

YK_TEST(pictures_are_evaluated_as_in_the_run)
{
    const char *list = "--augment 'RandomResizedCrop(12),Grayscale,Normalize(0.5,0.25),MixUp(0.2)' "
                       "--max-steps 1";
    make_run();                               /* or skips */
    assert_int_equal(train("grey", list), 0); /* the network has 1 x 12 x 12 inputs */
    assert_int_equal(predict(in_run("grey", "", "jpeg/rgb_444 png/grey_16")), 0);
    assert_contains(said, "jpeg/rgb_444: ");
    assert_int_equal(predict(in_run("grey", "--image-size 16", "png/grey_16")), 1);
    assert_contains(said, "shape");
}

YK_TEST(a_damaged_picture_is_named_and_the_others_are_predicted)
{
    make_run();
    for (int last = 0; last < 2; last++) {
        const char *order =
            last ? "jpeg/rgb_444 png/grey_16 png/bomb" : "png/bomb jpeg/rgb_444 png/grey_16";
        assert_int_equal(predict(with_run("--json", order)), 1);
        assert_contains(said, "png/bomb: a picture of 60000 x 60000 pixels");
        assert_contains(said, "1 of 3 pictures could not be read");
        assert_contains(said, "{\"file\": \"jpeg/rgb_444\"");
        assert_contains(said, "{\"file\": \"png/grey_16\"");
        assert_int_equal(count(said, "\"file\""), 2);
    }
}

/* A training that diverged has left weights that are not finite. */
YK_TEST(pictures_without_a_finite_answer_are_named_and_left_out)
{
    make_run();
    assert_int_equal(train("diverged", "--lr 1e6 --max-steps 3"), 0);
    for (int json = 0; json < 2; json++) {
        const char *option = json ? "--json --top 2" : "--top 2";
        assert_int_equal(predict(in_run("diverged", option, "png/grey_16")), 1);
        assert_string_equal(said,
                            "yoke: png/grey_16: the network's answer is not finite: left out\n");
        assert_int_equal(predict(in_run("diverged", option, "png/grey_16 jpeg/rgb_444")), 1);
        assert_contains(said, "yoke: jpeg/rgb_444: the network's answer is not finite: left out\n");
        assert_contains(said, "yoke: 2 of 2 pictures have no answer that is finite\n");
    }
}

YK_TEST(a_run_is_exported_as_onnx)
{
    char path[256];
    assert_int_equal(train("a", "--max-steps 1"), 0);
    snprintf(path, sizeof path, "%s/a.onnx", yk_test_directory());
    assert_int_equal(yk_test_command(said, sizeof said, "%s export %s/a %s", test_program(),
                                     yk_test_directory(), path),
                     0);
    assert_contains(said, "a.onnx: mlp for 3x32x32 pictures and 10 classes, 3.2 MB");
    assert_int_equal(yk_test_command(said, sizeof said, "grep -c '\\[\"disc\",\"ring\"' %s", path),
                     0); /* the names of the classes */
    assert_int_equal(yk_test_command(said, sizeof said, "%s export %s/a %s", test_program(),
                                     yk_test_directory(), path_of("a", "model.pth")),
                     2);
    assert_contains(said, "model.pth: expected a name that ends in .onnx");
    assert_int_equal(
        yk_test_command(said, sizeof said, "%s export %s/a", test_program(), yk_test_directory()),
        2);
    assert_contains(said, "expected CHECKPOINT and FILE.onnx");
}
