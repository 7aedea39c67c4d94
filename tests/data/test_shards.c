/* WebDataset shards: what is read, how patterns are expanded, and damaged archives. */
#define _GNU_SOURCE
#include "damage.h"
#include "shell.h"

#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

YK_TEST(shards_are_indexed)
{
    yk_dataset *dataset;
    yk_reader *reader;
    const yk_tensor *fields;
    shell(
        "mkdir s; cd s; for i in 0 1 2 3; do cp $SEEDS/jpeg/rgb_420 $i.jpg; echo $i > $i.cls;"
        "echo '{}' > $i.json; done; n=d/$(printf %0120d 7); mkdir d; cp $SEEDS/png/rgb $n.seg.png;"
        "cp $SEEDS/png/la $n.png; printf 6 > $n.cls; tar cf ../x-08.tar 0.jpg 0.cls 0.json 1.cls "
        "1.jpg;"
        "tar --format=pax -cf ../x-09.tar 2.jpg 2.cls $n.seg.png $n.png $n.cls;"
        "tar --format=gnu -cf ../x-10.tar ./3.jpg 3.json ./3.cls $n.png $n.cls");
    assert_refused(yk_shards_open, "x-{08..10}.tar", YK_SPLIT_TRAIN, "has no");
    shell("cd s; tar cf ../x-10.tar ./3.jpg ./3.cls; "
          "tar --format=gnu -rf ../x-10.tar d/*[0-9].png d/*.cls");
    assert_ok(yk_shards_open(&dataset, yk_test_path("x-{08..10}.tar"), YK_SPLIT_TRAIN));
    assert_int_equal(yk_dataset_size(dataset), 6);
    assert_int_equal(yk_dataset_classes(dataset), 7);
    assert_contains(sample_name(dataset, 1), "1.jpg in ");
    assert_contains(sample_name(dataset, 1), "x-08.tar");
    static const int labels[] = {0, 1, 2, 6, 3, 6};
    if (yk_reader_create(&reader, dataset) == YK_OK) {
        for (int i = 0; i < 6; i++) {
            assert_ok(yk_reader_read(reader, i, &fields));
            assert_int_equal(fields[0].dims[2], 45);
            assert_int_equal(*(const int32_t *)fields[1].data, labels[i]);
        }
        yk_reader_destroy(reader);
    }
    yk_dataset_destroy(dataset);
    damage(yk_shards_open, "x-{08,09}.tar", "x-09.tar", YK_SPLIT_TRAIN);
}

/* The sample has no name then: its header is gone too. */
YK_TEST(a_shard_that_has_become_shorter_is_told)
{
    yk_dataset *dataset;
    yk_reader *reader;
    const yk_tensor *fields;
    shell("cp $SEEDS/jpeg/rgb_420 0.jpg; echo 0 >0.cls; tar cf x.tar 0.jpg 0.cls");
    assert_ok(yk_shards_open(&dataset, yk_test_path("x.tar"), YK_SPLIT_TRAIN));
    assert_int_equal(truncate(yk_test_path("x.tar"), 0), 0);
    assert_string_equal(sample_name(dataset, 0), "");
    if (yk_reader_create(&reader, dataset) == YK_OK) {
        assert_status(YK_ERROR_IO, yk_reader_read(reader, 0, &fields));
        assert_contains(yk_last_error(), "x.tar: offset 512: the file ends here"); /* the picture */
        yk_reader_destroy(reader);
    }
    yk_dataset_destroy(dataset);
}

/* The index of each shard's only sample, in the order of the shards. */
static void assert_expands(const char *pattern, const char *numbers)
{
    yk_dataset *dataset;
    assert_ok(yk_shards_open(&dataset, yk_test_path(pattern), YK_SPLIT_TRAIN));
    char found[256] = "";
    for (int64_t i = 0; i < yk_dataset_size(dataset); i++) {
        const char *at = strstr(sample_name(dataset, i), "/n-");
        assert_non_null(at);
        strncat(found, at + 3, strcspn(at + 3, "."));
        strcat(found, " ");
    }
    assert_string_equal(found, numbers);
    yk_dataset_destroy(dataset);
}

/* As Python's braceexpand does it, which WebDataset uses. */
YK_TEST(braces_of_shards_are_expanded)
{
    shell("cp $SEEDS/png/rgb a.png; echo 3 > a.cls; tar cf t.tar a.png a.cls;"
          "for i in 0 1 2 3 08 09 10 008; do cp t.tar n-$i.tar; done");
    assert_expands("n-{0..3}.tar", "0 1 2 3 ");
    assert_expands("n-{3..0}.tar", "3 2 1 0 ");
    assert_expands("n-{0..3..2}.tar", "0 2 ");
    assert_expands("n-{3..0..-2}.tar", "3 1 ");
    assert_expands("n-{8..010..5}.tar", "008 ");
    assert_expands("n-{08..10}.tar", "08 09 10 ");
    assert_expands("n-{0,3,10}.tar", "0 3 10 ");
    assert_expands("n-{1..2}{,}.tar", "1 1 2 2 ");
    assert_refused(yk_shards_open, "n-{0..x}.tar", YK_SPLIT_TRAIN,
                   "{0..x} is neither a range of numbers, such as {000..127}, nor a list");
    assert_refused(yk_shards_open, "n-{0,{1..2}}.tar", YK_SPLIT_TRAIN, "{0,{1..2} is neither");
    assert_refused(yk_shards_open, "n-{0}.tar", YK_SPLIT_TRAIN, "{0} is neither");
    assert_refused(yk_shards_open, "n-{0..99999999}.tar", YK_SPLIT_TRAIN, "more than 65536 shards");
}

YK_TEST(there_may_be_more_shards_than_files_open_at_first)
{
    struct rlimit files;
    yk_dataset *dataset;
    shell("cp $SEEDS/png/rgb a.png; echo 3 > a.cls; tar cf n-0.tar a.png a.cls;"
          "for i in $(seq 99); do ln n-0.tar n-$i.tar; done");
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
    assert_true(files.rlim_max > 256);
    files.rlim_cur = 64;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &files), 0);
    assert_ok(yk_shards_open(&dataset, yk_test_path("n-{0..99}.tar"), YK_SPLIT_TRAIN));
    assert_int_equal(yk_dataset_size(dataset), 100);
    yk_dataset_destroy(dataset);
}

YK_TEST(extensions_of_shards_may_be_in_upper_case)
{
    yk_dataset *dataset;
    shell("cp $SEEDS/png/rgb a.PNG; echo 3 > a.CLS; tar cf x.tar a.PNG a.CLS");
    assert_ok(yk_shards_open(&dataset, yk_test_path("x.tar"), YK_SPLIT_TRAIN));
    assert_int_equal(yk_dataset_size(dataset), 1);
    assert_int_equal(yk_dataset_classes(dataset), 4);
    yk_dataset_destroy(dataset);
}

static void assert_width(const char *pattern, int64_t width)
{
    yk_dataset *dataset;
    yk_reader *reader;
    const yk_tensor *fields;
    assert_ok(yk_shards_open(&dataset, yk_test_path(pattern), YK_SPLIT_TRAIN));
    assert_int_equal(yk_dataset_size(dataset), 1);
    if (yk_reader_create(&reader, dataset) == YK_OK) {
        assert_ok(yk_reader_read(reader, 0, &fields));
        assert_int_equal(fields[0].dims[2], width);
        yk_reader_destroy(reader);
    }
    yk_dataset_destroy(dataset);
}

/* A mask, say, which follows the picture in a sorted archive. */
YK_TEST(a_second_picture_of_another_kind_is_another_file)
{
    shell("cp $SEEDS/jpeg/rgb_420 a.jpg; echo 3 > a.cls; printf mask > a.png; "
          "tar cf x.tar a.cls a.jpg a.png; tar cf y.tar a.png a.jpg a.cls");
    assert_width("x.tar", 45);
    assert_width("y.tar", 45);
}

/* tar makes links of files with several names. */
YK_TEST(a_picture_that_is_a_link_is_told)
{
    shell("cp $SEEDS/png/rgb a.png; echo 3 > a.cls; cp a.cls b.cls; ln a.png b.png;"
          "tar cf x.tar a.png a.cls b.png b.cls; tar cf y.tar a.png a.cls b.cls");
    assert_refused(yk_shards_open, "x.tar", YK_SPLIT_TRAIN,
                   "sample \"b\" has no picture (.jpg, .png or .webp); links are not followed");
    assert_refused(yk_shards_open, "y.tar", YK_SPLIT_TRAIN, "has no picture (.jpg, .png or .webp)");
    assert_null(strstr(yk_last_error(), "links"));
}

/* As WebDataset does; samples of one name would become one. */
YK_TEST(a_file_that_a_sample_has_twice_is_refused)
{
    shell("cp $SEEDS/png/rgb a.png; echo 3 > a.cls; T='tar --hard-dereference';"
          "$T -cf x.tar a.png a.cls a.png a.cls; $T -cf y.tar a.cls a.cls a.png");
    assert_refused(yk_shards_open, "x.tar", YK_SPLIT_TRAIN,
                   "x.tar: a.png: its sample has this file twice");
    assert_refused(yk_shards_open, "y.tar", YK_SPLIT_TRAIN,
                   "y.tar: a.cls: its sample has this file twice");
}

/* Extended attributes, which are longer than all else that a header says. */
YK_TEST(long_headers_of_pax_are_read)
{
    yk_dataset *dataset;
    shell("cp $SEEDS/jpeg/rgb_420 0.jpg; echo 3 >0.cls; value=$(printf %070000d 0);"
          "tar --format=pax --pax-option=VENDOR.a:=$value -cf x.tar 0.jpg 0.cls;"
          "for key in a b c d e f g h i j k l m n o; do set -- $@ --pax-option=VENDOR.$key:=$value;"
          "done; tar --format=pax $@ -cf y.tar 0.jpg 0.cls");
    assert_ok(yk_shards_open(&dataset, yk_test_path("x.tar"), YK_SPLIT_TRAIN));
    assert_int_equal(yk_dataset_size(dataset), 1);
    assert_int_equal(yk_dataset_classes(dataset), 4);
    yk_dataset_destroy(dataset);
    assert_refused(yk_shards_open, "y.tar", YK_SPLIT_TRAIN, "an extended header is too large");
}

YK_TEST(labels_of_shards_are_read_to_their_end)
{
    yk_dataset *dataset;
    static const char *const wrong[] = {"printf '1%29s' nothing", "printf '1%23s' 7",
                                        "printf '1%23s'",         "printf '1\\0002'",
                                        "printf '1 2'",           "printf ''"};
    shell("cp $SEEDS/png/rgb a.png");
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char line[128];
        snprintf(line, sizeof line, "%s > a.cls; tar cf x.tar a.png a.cls", wrong[i]);
        shell(line);
        assert_refused(yk_shards_open, "x.tar", YK_SPLIT_TRAIN,
                       "a.cls: expected a label in digits");
    }
    shell("printf '1%22s' > a.cls; tar cf x.tar a.png a.cls");
    assert_ok(yk_shards_open(&dataset, yk_test_path("x.tar"), YK_SPLIT_TRAIN));
    yk_dataset_destroy(dataset);
}

/* The number of samples of a shard; log gets what was printed meanwhile. */
static int64_t open_with_log(const char *name, char *log, size_t log_size)
{
    yk_dataset *dataset;
    char path[512];
    int saved = dup(STDERR_FILENO), file;
    snprintf(path, sizeof path, "%s", yk_test_path(name));
    file = open(yk_test_path("log"), O_RDWR | O_CREAT | O_TRUNC, 0600);
    assert_true(saved >= 0 && file >= 0);
    dup2(file, STDERR_FILENO);
    yk_status status = yk_shards_open(&dataset, path, YK_SPLIT_TRAIN);
    dup2(saved, STDERR_FILENO);
    assert_ok(status);
    ssize_t size = pread(file, log, log_size - 1, 0);
    log[size > 0 ? size : 0] = '\0';
    close(file);
    close(saved);
    int64_t samples = yk_dataset_size(dataset);
    yk_dataset_destroy(dataset);
    return samples;
}

/* At the end of a sample, an archive that is cut short looks like a smaller one. */
YK_TEST(shards_that_are_cut_short_are_reported)
{
    struct stat info;
    char log[1024];
    shell("cp $SEEDS/png/rgb a.png; echo 3 > a.cls; cp a.png b.png; cp a.cls b.cls;"
          "tar -b1 -cf x.tar a.png a.cls b.png b.cls; tar -b1 -cf y.tar a.png a.cls");
    assert_int_equal(stat(yk_test_path("y.tar"), &info), 0);
    assert_int_equal(open_with_log("x.tar", log, sizeof log), 2);
    assert_string_equal(log, "");
    assert_int_equal(truncate(yk_test_path("x.tar"), info.st_size - 1024), 0);
    assert_int_equal(open_with_log("x.tar", log, sizeof log), 1);
    assert_contains(log, "x.tar: the archive does not end");
    assert_contains(log, "has the file been cut short?");
}

YK_TEST(compressed_shards_are_told)
{
    shell("cp $SEEDS/png/rgb a.png; echo 3 > a.cls; tar czf x.tar.gz a.png a.cls");
    assert_refused(yk_shards_open, "x.tar.gz", YK_SPLIT_TRAIN, "unpack it with gunzip");
}

YK_TEST(shards_have_splits)
{
    yk_dataset *dataset;
    shell("cp $SEEDS/png/rgb a.png; echo 3 > a.cls; tar cf t.tar a.png a.cls; cp t.tar v.tar;"
          "echo x > a.cls; tar cf w.tar a.png a.cls; : > e.tar");
    char both[1024];
    snprintf(both, sizeof both, "%s/t.tar::%s/{v,t}.tar", yk_test_directory(), yk_test_directory());
    assert_ok(yk_shards_open(&dataset, both, YK_SPLIT_TRAIN));
    assert_int_equal(yk_dataset_size(dataset), 1);
    yk_dataset_destroy(dataset);
    assert_ok(yk_shards_open(&dataset, both, YK_SPLIT_TEST));
    assert_int_equal(yk_dataset_size(dataset), 2);
    yk_dataset_destroy(dataset);
    assert_refused(yk_shards_open, "t.tar", YK_SPLIT_TEST, "no shards for validation");
    assert_refused(yk_shards_open, "w.tar", YK_SPLIT_TRAIN, "a.cls: expected a label in digits");
    assert_refused(yk_shards_open, "e.tar", YK_SPLIT_TRAIN, "no samples in these shards");
    assert_refused(yk_shards_open, "n-{0..3}.tar", YK_SPLIT_TRAIN, "n-0.tar: cannot open it");
    yk_status status = yk_shards_open(&dataset, "::v.tar", YK_SPLIT_TRAIN);
    assert_status(YK_ERROR_INVALID_ARGUMENT, status);
    assert_contains(yk_last_error(), "\"::v.tar\" names no shards for training");
    assert_refused(yk_shards_open, "t.tar::", YK_SPLIT_TEST, "names no shards for validation");
}
