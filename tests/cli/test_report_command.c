/* `yoke report` and `yoke compare`: what they say about runs. */
#define _GNU_SOURCE
#include "runs.h"
#include "yoke_line.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static void write_two_runs(void)
{
    write_run("a", "lr=0.1\nepochs=2\n", 1, 0.5);
    write_run("b", "lr=0.3\nepochs=2\nnesterov=true\n", 2, 0.75);
}

/* ---- compare --------------------------------------------------------------------------------- */

YK_TEST(compare_shows_what_differs)
{
    write_two_runs();
    assert_int_equal(yoke("compare a b/"), 0);
    assert_contains(output, "                            a         b\n-----");
    assert_contains(output, "\nlr                        0.1       0.3\n");
    assert_contains(output, "\nnesterov                    -      true\n");
    assert_contains(output, "\nranks                       1         2\n");
    assert_contains(output, "\nvalidation accuracy   37.50 %   62.50 %\n");
    assert_contains(output, "\n  highest             50.00 %   75.00 %\n");
    assert_contains(output, "\n  in epoch                  1         1\n");
    assert_contains(output, "\nimages/s                100.0     200.0\n");
    assert_contains(output, "\nslower rank                 -         1\n");
    assert_contains(output, "\n  in epochs                 -         2\n");
    assert_null(strstr(output, "\nepochs"));
    assert_int_equal(yoke("compare --all a b"), 0);
    assert_contains(output, "\nepochs  ");
}

/* As many as a sweep may have are compared, and none is left out. */
YK_TEST(compare_shows_every_run)
{
    enum { RUNS = 120 };
    char name[16];
    for (int i = 0; i < RUNS; i++) {
        snprintf(name, sizeof name, "run%03d", i);
        write_run(name, "lr=0.1\n", 1, 0.5);
    }
    assert_int_equal(yoke("compare run*"), 0);
    for (int i = 0; i < RUNS; i++) {
        snprintf(name, sizeof name, "  run%03d", i);
        assert_contains(output, name);
    }
    assert_contains(output, "  run119\n---");
}

/* The names of folders and the values of options are the user's: a row stays a row. */
YK_TEST(compare_prints_no_control_characters)
{
    write_run("a", "lr=0.1\n", 1, 0.5);
    write_run("b\n\033[2J", "lr=\033[2J\n", 1, 0.5);
    assert_int_equal(yoke("compare a b*"), 0);
    assert_contains(output, "                            a    b??[2J\n-----");
    assert_contains(output, "\nlr                        0.1      ?[2J\n");
}

/* An epoch whose accuracy is not known does not make the others unknown. */
YK_TEST(the_highest_accuracy_skips_epochs_without_one)
{
    const double accuracies[] = {0.75, (double)NAN, 0.5};
    yk_metrics *metrics;
    write_two_runs();
    assert_ok(yk_metrics_open(&metrics, yk_test_path("c/metrics.jsonl")));
    assert_ok(yk_metrics_header(metrics, &(yk_header_record){.arch = "mlp",
                                                             .data = "synthetic",
                                                             .options = "",
                                                             .ranks = 1,
                                                             .threads = 1,
                                                             .batch_size = 64}));
    for (int64_t epoch = 1; epoch <= 3; epoch++)
        assert_ok(
            yk_metrics_epoch(metrics, &(yk_epoch_record){.epoch = epoch,
                                                         .step = epoch,
                                                         .val_accuracy = accuracies[epoch - 1],
                                                         .slowest_rank = -1}));
    yk_metrics_close(metrics);
    assert_int_equal(yoke("compare a c"), 0);
    assert_contains(output, "\nvalidation accuracy   37.50 %  50.00 %\n");
    assert_contains(output, "\n  highest             50.00 %  75.00 %\n");
    assert_contains(output, "\n  in epoch                  1        1\n");
}

YK_TEST(compare_says_when_nothing_differs)
{
    write_two_runs();
    assert_int_equal(yoke("compare a a/metrics.jsonl"), 0);
    assert_contains(output, "The runs were started with the same options.\n");
}

YK_TEST(compare_names_a_folder_that_is_no_run)
{
    write_two_runs();
    assert_int_equal(yoke("compare a nowhere"), 1);
    assert_contains(output, "yoke: nowhere: no such folder\n");
    yk_test_write_file(yk_test_path("a/model.pth"), "", 0);
    assert_int_equal(yoke("compare a a/model.pth"), 1);
    assert_contains(output, "yoke: a/model.pth: is a file: name the output folder of a run\n");
    assert_int_equal(yoke("compare a ."), 1);
    assert_contains(output, "no metrics.jsonl there: name the output folder of a run; left out\n");
    yk_test_write_file(yk_test_path("metrics.jsonl"), "text\n", 5);
    assert_int_equal(yoke("report ."), 1);
    assert_contains(output, "its metrics.jsonl holds no records of a run\n");
    assert_int_equal(yoke("compare a"), 2);
    assert_contains(output, "expected two or more output folders of runs");
}

/* A run that has failed before its first record leaves an empty file. */
YK_TEST(runs_without_records_are_left_out_of_several)
{
    write_two_runs();
    assert_int_equal(mkdir(yk_test_path("failed"), 0777), 0);
    yk_test_write_file(yk_test_path("failed/metrics.jsonl"), "", 0);
    assert_int_equal(yoke("report --pictures 0 a failed b"), 0);
    assert_contains(output,
                    "yoke: failed: its metrics.jsonl holds no records of a run; left out\n");
    assert_contains(output, "Report on 2 runs in report.html: open it in a browser\n");
    assert_int_equal(yoke("report --pictures 0 . a"), 0);
    assert_contains(output,
                    "yoke: .: no metrics.jsonl there: name the output folder of a run; left "
                    "out\nReport on 1 run in report.html");
    assert_int_equal(yoke("compare failed a b"), 0);
    assert_contains(output, "\nlr                        0.1       0.3\n");
    assert_int_equal(yoke("compare failed a"), 1);
    assert_contains(output, "yoke: there is no other run to compare a with\n");
    assert_int_equal(yoke("report failed failed/"), 1);
    assert_null(strstr(output, "Report on"));
    assert_int_equal(yoke("report a nowhere"), 1); /* a name that is misspelt */
    assert_contains(output, "yoke: nowhere: no such folder\n");
}

YK_TEST(report_takes_as_many_runs_as_a_sweep_may_have)
{
    write_two_runs();
    assert_int_equal(yoke("report --pictures 0 -o all.html $(yes 'a b' | head -n 500)"), 0);
    assert_contains(output, "Report on 1000 runs in all.html");
    assert_int_equal(yoke("report --pictures 0 $(yes 'a b' | head -n 501)"), 2);
    assert_contains(output, "yoke report: 'a' is one too many: at most 1000 are read");
}

YK_TEST(report_goes_on_after_a_step_without_times)
{
    yk_metrics *metrics;
    assert_ok(yk_metrics_open(&metrics, yk_test_path("metrics.jsonl")));
    assert_ok(yk_metrics_header(metrics, &(yk_header_record){.arch = "mlp",
                                                             .data = "synthetic",
                                                             .options = "",
                                                             .ranks = 1,
                                                             .threads = 1,
                                                             .batch_size = 64}));
    for (int64_t step = 1; step <= 3; step++)
        assert_ok(yk_metrics_step(
            metrics,
            &(yk_step_record){
                .epoch = 1, .step = step, .loss = 1, .compute_s = step == 2 ? (double)NAN : 0.25}));
    yk_metrics_close(metrics);
    assert_int_equal(yoke("report --pictures 0 -o - ."), 0);
    assert_contains(output, "\"time\":[0.25,0.25,0.5]");
}

/* ---- report ---------------------------------------------------------------------------------- */

static const char *page_of(const char *arguments)
{
    assert_int_equal(yoke(arguments), 0);
    assert_non_null(strstr(output, "<!DOCTYPE html>"));
    return output;
}

/* A run of weeks over little data: what is drawn of an epoch takes no look at all steps. */
YK_TEST(report_of_very_many_epochs)
{
    enum { EPOCHS = 200000 };
    char path[300];
    write_two_runs();
    write_run("long", "epochs=1000000\n", 2, 0.5);
    snprintf(path, sizeof path, "%s/long/metrics.jsonl", yk_test_directory());
    FILE *file = fopen(path, "a");
    assert_non_null(file);
    for (int i = 3; i < EPOCHS; i++)
        fprintf(file,
                "{\"type\": \"step\", \"epoch\": %d, \"step\": %d, \"data_s\": 1}\n"
                "{\"type\": \"epoch\", \"epoch\": %d, \"step\": %d, \"slowest_rank\": %d}\n",
                i, 38 + i, i, 38 + i, i % 3);
    fclose(file);
    assert_int_equal(yoke("report --pictures 0 long"), 0);
    assert_int_equal(yoke("compare a long"), 0);
    assert_contains(output, "\nslower rank  ");
}

YK_TEST(report_is_one_file_without_the_network)
{
    write_two_runs();
    const char *page = page_of("report --pictures 0 -o - a b");
    assert_contains(page, "<title>a and 1 more");
    assert_contains(page, "\"differing\":[\"ranks\",\"lr\",\"nesterov\"]");
    assert_contains(page, "\"images_per_s\":200,");
    assert_contains(page, "\"slowest_rank\":null,\"slowest_epochs\":null,\"waited\":null,");
    assert_contains(page, "\"slowest_rank\":1,\"slowest_epochs\":2,\"waited\":5,");
    assert_contains(page, "\"accuracy\":[0.75,0.625]");
    assert_null(strstr(page, "src=\"http"));
    assert_null(strstr(page, "href="));
    assert_null(strstr(page, "@import"));
    assert_null(strstr(page, "url("));
}

/* Names and options are the user's, and may look like HTML. */
YK_TEST(report_escapes_texts)
{
    write_run("a&b", "note=</script><b>\"x\"\n", 1, 0.5);
    const char *page = page_of("report --pictures 0 -o - 'a&b'");
    assert_contains(page, "<h1>a&amp;b</h1>");
    assert_contains(page, "\"note\":\"\\u003c/script>\\u003cb>\\\"x\\\"\"");
}

YK_TEST(report_is_written_into_the_folder_of_its_run)
{
    write_two_runs();
    assert_int_equal(yoke("report --pictures 0 a"), 0);
    assert_contains(output, "Report on 1 run in a/report.html: open it in a browser\n");
    assert_int_equal(yoke("report a b"), 0); /* without checkpoints there are no pictures */
    assert_int_equal(yoke("report -o nowhere/x.html a"), 2);
    assert_int_equal(
        yk_test_command(output, sizeof output, "cat %s/report.html", yk_test_directory()), 0);
    assert_contains(output, "\"mistakes_note\":\"No pictures: the run has no checkpoint.\"");
}

/* Not what the library said while it found out what the folder holds. */
YK_TEST(report_says_why_there_are_no_pictures)
{
    if (!yk_image_formats())
        skip_because("there is no libyoke-image.so");
    yoke_ends(0, "data pack synthetic --split test -o train.pack && mkdir d && mv train.pack d");
    yoke_ends(0, "train --data d --val-split 0.5 --arch mlp --max-steps 1 --output r && "
                 "sed -i s/val-split=0.5/val-split=1e-5/ r/metrics.jsonl");
    yoke_ends(0, "report r && grep -o 'No pictures: [^\"]*' r/report.html");
    assert_contains(output, "No pictures: --val-split 1e-05: of 1000 images in ");
}

/* A damaged image, after batches whose mistakes have been found. */
YK_TEST(report_without_pictures_shows_none)
{
    if (!yk_image_formats())
        skip_because("there is no libyoke-image.so");
    yoke_ends(0, "data pack synthetic --split test --format jpeg -o val.pack && mkdir d && "
                 "cp val.pack d/train.pack && mv val.pack d");
    yoke_ends(0, "train --data d --image-size 8 --arch mlp --max-steps 1 --output r && "
                 "dd if=/dev/zero of=d/val.pack bs=1 count=3000 conv=notrunc "
                 "seek=$(($(stat -c %s d/val.pack) * 3 / 4))");
    yoke_ends(0, "report r && ! grep -q '\"png\":\"' r/report.html && "
                 "grep -o 'No pictures: [^\"]*' r/report.html");
    assert_contains(output, ": damaged JPEG: ");
}

YK_TEST(report_shows_misclassified_pictures)
{
    assert_int_equal(yoke("train --data synthetic --arch mlp --lr 0.01 --max-steps 2 --output a"),
                     0);
    const char *page = page_of("report --pictures 3 -o - a");
    if (yk_test_command(output + sizeof output / 2, sizeof output / 2, "%s info | grep -q libpng",
                        getenv("YOKE_PROGRAM")) != 0)
        return;
    assert_contains(page, "\"png\":\"iVBOR");
    assert_contains(page, "; these are the ones it was most certain of.");
}

/* Labels are probabilities there, in evaluation as well. */
YK_TEST(report_shows_mistakes_of_a_run_that_has_mixed_images)
{
    assert_int_equal(yoke("train --data synthetic --arch mlp --lr 0.01 --max-steps 2 "
                          "--augment 'Normalize(0.5,0.5),MixUp(0.2)' --output a"),
                     0);
    const char *page = page_of("report --pictures 3 -o - a");
    if (!strstr(page, "\"png\":\""))
        skip_because("built without decoders");
    assert_contains(page, "\"truth\":\"");
    assert_null(strstr(page, "\"truth\":\"class "));
}

/* JSON has no NaN: a page with one would stay empty. */
YK_TEST(report_shows_mistakes_of_a_network_whose_answers_are_not_finite)
{
    assert_int_equal(yoke("train --data synthetic --arch mlp --lr 1e6 --max-steps 3 --output a"),
                     0);
    const char *page = page_of("report --pictures 3 -o - a");
    if (!strstr(page, "\"png\":\""))
        skip_because("built without decoders");
    assert_contains(page, "\"confidence\":null,\"png\":\"iVBOR");
    assert_null(strstr(page, "nan,"));
}

/* The pictures' own files, though a packed file is what the run was trained on. */
YK_TEST(report_names_misclassified_pictures)
{
    int code = yk_test_command(
        output, sizeof output,
        "set -e; cd %s; SEEDS=%s/tests/fuzz/corpus; mkdir -p d/train/a d/train/b d/val/a d/val/b;"
        " for split in train val; do for class in a b; do"
        " cp $SEEDS/png/rgb d/$split/$class/of_$class.png; done; done;"
        " for split in train test; do %s data pack folder:d --split $split -o"
        " $(echo $split | sed s/test/val/).pack; done",
        yk_test_directory(), getenv("YOKE_SOURCE"), getenv("YOKE_PROGRAM"));
    if (code != 0)
        skip_because("%s", output);
    assert_int_equal(yoke("train --data pack:. --arch mlp --lr 0.01 --epochs 1 --output a"), 0);
    const char *page = page_of("report -o - a"); /* one of two equal pictures is always wrong */
    assert_contains(page, "\"name\":\"");
    assert_true(strstr(page, "\"name\":\"a/of_a.png\"") || strstr(page, "\"name\":\"b/of_b.png\""));
}

/* ---- in a browser ---------------------------------------------------------------------------- */

static int count_of(const char *text, const char *part)
{
    int count = 0;
    for (; (text = strstr(text, part)); text += strlen(part))
        count++;
    return count;
}

/* The page's elements as the browser has made them, in output. */
static void browse(const char *page)
{
    int code = yk_test_command(output, sizeof output,
                               "chromium --headless --no-sandbox --disable-gpu "
                               "--user-data-dir=%s/profile --virtual-time-budget=2000 --dump-dom "
                               "file://%s/%s 2>/dev/null",
                               yk_test_directory(), yk_test_directory(), page);
    if (code == 127)
        skip_because("no browser here (Debian: chromium)");
    assert_int_equal(code, 0);
    assert_contains(output, "<h2>All options</h2>");
    assert_int_equal(count_of(output, "<svg"), 6); /* the program has reached its end */
}

YK_TEST(report_opens_in_a_browser)
{
    write_two_runs();
    assert_int_equal(yoke("report --pictures 0 -o page.html a b"), 0);
    browse("page.html");
    assert_true(count_of(output, "<path") >= 10);
    assert_contains(output, "<h2>Options that differ</h2>");
    assert_contains(output, "62.50&nbsp;%");
    assert_contains(output,
                    "b: rank 1 was slower in 2 of 2 epochs: the other ranks waited 5.0 s for it.");
}

/* Between a loss and its mean, which rounding makes a little different, are no round numbers. */
YK_TEST(report_draws_a_loss_that_stays_the_same)
{
    yk_metrics *metrics;
    assert_ok(yk_metrics_open(&metrics, yk_test_path("flat/metrics.jsonl")));
    for (int64_t step = 1; step <= 20; step++)
        assert_ok(yk_metrics_step(
            metrics, &(yk_step_record){.epoch = 1, .step = step, .loss = 4.799561, .lr = 1}));
    yk_metrics_close(metrics);
    assert_int_equal(yoke("report --pictures 0 -o page.html flat"), 0);
    browse("page.html");
    assert_true(count_of(output, "<text") < 100);
}
