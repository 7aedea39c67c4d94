/* The kernels that a model was trained with, in a checkpoint: there and back, and damaged. */
#define _GNU_SOURCE
#include "harness.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "checkpoint/state/choices_state.h"

/* Writes what "kernels" is. */
typedef void write_function(yki_pickle_writer *pickle);

static yk_status write_and_read(write_function *write, yki_choices *choices)
{
    yki_pth_writer *writer;
    yki_pth *pth;
    const char *path = yk_test_path("a.pth");
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    assert_true(fd >= 0);
    assert_ok(yki_pth_writer_create(&writer, fd, path));
    yki_pickle_writer *pickle = yki_pth_pickle(writer);
    yki_pickle_dict(pickle);
    yki_pickle_mark(pickle);
    yki_pickle_text(pickle, "kernels");
    write(pickle);
    yki_pickle_setitems(pickle);
    assert_ok(yki_pth_writer_finish(writer));
    close(fd);
    assert_ok(yki_pth_open(&pth, path));
    yk_status status = yki_choices_state_read(pth, yki_pth_root(pth), choices);
    yki_pth_close(pth);
    return status;
}

static void write_pair(yki_pickle_writer *pickle, const char *problem, const char *kernel)
{
    yki_pickle_dict(pickle);
    yki_pickle_mark(pickle);
    yki_pickle_text(pickle, "conv2d of something");
    yki_pickle_text(pickle, "amx");
    yki_pickle_text(pickle, problem);
    if (kernel)
        yki_pickle_text(pickle, kernel);
    else
        yki_pickle_int(pickle, 7);
    yki_pickle_setitems(pickle);
}

static void write_longest(yki_pickle_writer *pickle)
{
    char problem[YKI_PROBLEM_TEXT], kernel[YKI_KERNEL_NAME];
    memset(problem, 'p', sizeof problem);
    memset(kernel, 'k', sizeof kernel);
    problem[sizeof problem - 1] = kernel[sizeof kernel - 1] = '\0';
    write_pair(pickle, problem, kernel);
}

YK_TEST(choices_of_any_length_are_found_again)
{
    yki_choices choices = {NULL};
    assert_ok(write_and_read(write_longest, &choices));
    assert_int_equal(choices.count, 2);
    assert_string_equal(yki_choices_find(&choices, "conv2d of something")->kernel, "amx");
    assert_int_equal(strlen(choices.list[1].problem), YKI_PROBLEM_TEXT - 1);
    assert_int_equal(strlen(choices.list[1].kernel), YKI_KERNEL_NAME - 1);
    yki_choices_fini(&choices);
}

/* ---- damaged --------------------------------------------------------------------------------- */

static void write_number(yki_pickle_writer *pickle)
{
    yki_pickle_int(pickle, 1);
}

static void write_number_as_kernel(yki_pickle_writer *pickle)
{
    write_pair(pickle, "conv2d", NULL);
}

static void write_long_kernel(yki_pickle_writer *pickle)
{
    write_pair(pickle, "conv2d", "a_kernel_whose_name_is_long");
}

static void write_long_problem(yki_pickle_writer *pickle)
{
    char problem[YKI_PROBLEM_TEXT + 1];
    memset(problem, 'p', sizeof problem);
    problem[sizeof problem - 1] = '\0';
    write_pair(pickle, problem, "amx");
}

static void write_unprintable_kernel(yki_pickle_writer *pickle)
{
    write_pair(pickle, "conv2d", "\033[2Jamx");
}

static void write_many(yki_pickle_writer *pickle, int count)
{
    char problem[16];
    yki_pickle_dict(pickle);
    yki_pickle_mark(pickle);
    for (int i = 0; i < count; i++) {
        snprintf(problem, sizeof problem, "%d", i);
        yki_pickle_text(pickle, problem);
        yki_pickle_text(pickle, "amx");
    }
    yki_pickle_setitems(pickle);
}

static void write_most(yki_pickle_writer *pickle)
{
    write_many(pickle, YKI_MOST_CHOICES);
}

static void write_too_many(yki_pickle_writer *pickle)
{
    write_many(pickle, YKI_MOST_CHOICES + 1);
}

/* The time to read them grows with the square of their number. */
YK_TEST(a_list_of_choices_that_is_full_does_not_grow)
{
    yki_choices choices = {NULL};
    assert_ok(write_and_read(write_most, &choices));
    assert_int_equal(choices.count, YKI_MOST_CHOICES);
    assert_ok(yki_choices_set(&choices, "another", "onednn"));
    assert_ok(yki_choices_set(&choices, "7", "onednn"));
    assert_int_equal(choices.count, YKI_MOST_CHOICES);
    assert_string_equal(yki_choices_find(&choices, "7")->kernel, "onednn");
    yki_choices_fini(&choices);
}

YK_TEST(damaged_choices_are_refused)
{
    static const struct {
        write_function *write;
        const char *expected;
    } damaged[] = {{write_number, "the dict \"kernels\""},
                   {write_number_as_kernel, "text shorter than 24 bytes in \"kernels\""},
                   {write_long_kernel, "text shorter than 24 bytes in \"kernels\""},
                   {write_long_problem, "text shorter than 384 bytes in \"kernels\""},
                   {write_unprintable_kernel, "a printable text shorter than 24 bytes"},
                   {write_too_many, "at most 4096 \"kernels\""}};
    for (size_t i = 0; i < sizeof damaged / sizeof *damaged; i++) {
        yki_choices choices = {NULL};
        assert_int_not_equal(write_and_read(damaged[i].write, &choices), YK_OK);
        assert_contains(yk_last_error(), damaged[i].expected);
        yki_choices_fini(&choices);
    }
}
