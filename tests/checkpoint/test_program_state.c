/* The settings that a program keeps in its checkpoints, as versions of yoke have written them. */
#define _GNU_SOURCE
#include "harness.h"

#include <fcntl.h>
#include <unistd.h>

#include <yoke/checkpoint.h>

#include "checkpoint/tensor_file/pth.h"

static void write_count(yki_pickle_writer *pickle, const char *name, int64_t count)
{
    yki_pickle_text(pickle, name);
    yki_pickle_int(pickle, count);
}

static void write_real(yki_pickle_writer *pickle, const char *name, double real)
{
    yki_pickle_text(pickle, name);
    yki_pickle_float(pickle, real);
}

/* A checkpoint's state as the first version wrote it: the command line, as the text "options". */
static const char *write_first_version(const char *options)
{
    const char *path = yk_test_path("first-version.pth");
    static const char *const zeros[] = {"epoch_batch", "world_size", "seed"};
    yki_pth_writer *writer;
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    assert_ok(yki_pth_writer_create(&writer, fd, path));
    yki_pickle_writer *pickle = yki_pth_pickle(writer);
    yki_pickle_dict(pickle);
    yki_pickle_mark(pickle);
    yki_pickle_text(pickle, "yoke");
    yki_pickle_dict(pickle);
    yki_pickle_mark(pickle);
    write_count(pickle, "version", 1);
    yki_pickle_text(pickle, "arch");
    yki_pickle_text(pickle, "mlp");
    write_count(pickle, "epoch", 2);
    write_count(pickle, "step", 84);
    write_count(pickle, "batch_size", 120);
    for (size_t i = 0; i < sizeof zeros / sizeof *zeros; i++)
        write_count(pickle, zeros[i], 0);
    write_real(pickle, "lr", 0.1);
    write_real(pickle, "val_accuracy", -1);
    yki_pickle_text(pickle, "options");
    yki_pickle_text(pickle, options);
    yki_pickle_setitems(pickle);
    yki_pickle_setitems(pickle);
    assert_ok(yki_pth_writer_finish(writer));
    close(fd);
    return path;
}

YK_TEST(the_options_of_the_first_version_are_read)
{
    yk_training_state known;
    const char *path = write_first_version("--data=a folder\n--nesterov\n--lr=0.1\n--autocast=\n");
    assert_ok(yk_checkpoint_read_state(path, &known));
    assert_string_equal(known.program, "data=a folder\nnesterov=true\nlr=0.1\nautocast=\n");
    assert_string_equal(known.arch, "mlp");
    assert_int_equal(known.step, 84);
    assert_false(known.has_schedule);
    assert_ok(yk_checkpoint_read_state(write_first_version(""), &known));
    assert_string_equal(known.program, "");
}

YK_TEST(options_of_the_first_version_that_make_no_sense_are_refused)
{
    yk_training_state known = {.step = 7};
    assert_status(YK_ERROR_INVALID_ARGUMENT,
                  yk_checkpoint_read_state(write_first_version("--=0.1\n"), &known));
    assert_contains(yk_last_error(), "expected lines NAME=VALUE, found \"=0.1\"");
    assert_int_equal(known.step, 7);
}
