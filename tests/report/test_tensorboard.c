/* Event files: their bytes, and what TensorBoard's own reader finds in them. */
#define _GNU_SOURCE
#include "disk.h"
#include "harness.h"

#include <dirent.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "report/event_file.h"

/* ---- bytes ----------------------------------------------------------------------------------- */

/* The record of the event, in hexadecimal. */
static const char *record_text(const yki_protobuf *event)
{
    static char text[512];
    uint8_t head[YKI_RECORD_HEAD], tail[YKI_RECORD_TAIL];
    size_t at = 0;
    yki_event_frame(head, tail, event);
    for (size_t i = 0; i < sizeof head; i++)
        at += (size_t)sprintf(text + at, "%02x", head[i]);
    for (size_t i = 0; i < event->size; i++)
        at += (size_t)sprintf(text + at, "%02x", event->data[i]);
    for (size_t i = 0; i < sizeof tail; i++)
        at += (size_t)sprintf(text + at, "%02x", tail[i]);
    return text;
}

/* Records that TensorBoard 2.21's own writer has written. */
YK_TEST(event_records_have_the_bytes_of_tensorboard)
{
    yki_protobuf event = {.size = 0};
    yki_protobuf_double(&event, 1, 1.0);
    yki_protobuf_text(&event, 3, "brain.Event:2");
    assert_string_equal(record_text(&event),
                        "1800000000000000a37f4b2209000000000000f03f1a0d627261696e2e4576656e743a32"
                        "86bf577a");
    yki_protobuf_clear(&event);
    yki_protobuf_double(&event, 1, 1.0);
    yki_protobuf_int(&event, 2, 7);
    size_t summary = yki_protobuf_begin(&event, 5), value = yki_protobuf_begin(&event, 1);
    yki_protobuf_text(&event, 1, "loss");
    yki_protobuf_float(&event, 2, 0.5f);
    yki_protobuf_end(&event, value);
    yki_protobuf_end(&event, summary);
    assert_string_equal(record_text(&event),
                        "1a00000000000000129bd82d09000000000000f03f10072a0d0a0b0a046c6f7373150000"
                        "003f862c9a2f");
    yki_protobuf_fini(&event);
}

YK_TEST(long_messages_get_a_long_length)
{
    enum { LONG = 70000 };
    static uint8_t bytes[LONG];
    yki_protobuf message = {.size = 0};
    size_t inner = yki_protobuf_begin(&message, 1);
    yki_protobuf_bytes(&message, 2, bytes, LONG);
    yki_protobuf_end(&message, inner);
    assert_false(message.failed);
    assert_int_equal(message.size, LONG + 2 * 4);
    assert_memory_equal(message.data, "\x0a\xf4\xa2\x04\x12\xf0\xa2\x04", 8);
    yki_protobuf_fini(&message);
}

/* Readers refuse a whole message for a text that is not UTF-8. */
YK_TEST(texts_of_messages_are_utf8)
{
    yki_protobuf message = {0};
    yki_protobuf_text(&message, 1, "\xff/\xc3\xa9");
    assert_false(message.failed);
    assert_int_equal(message.size, 9);
    assert_memory_equal(message.data, "\x0a\x07\\xff/\xc3\xa9", 9);
    yki_protobuf_fini(&message);
}

/* ---- TensorBoard as the judge ---------------------------------------------------------------- */

/* What TensorBoard's reader finds in the folder. */
static const char *read_back(const char *folder)
{
    static char output[16384];
    int code =
        yk_test_command(output, sizeof output,
                        "%s/python/bin/python3 %s/tests/report/read_events.py %s 2>/dev/null",
                        getenv("YOKE_BUILD"), getenv("YOKE_SOURCE"), folder);
    if (code == 77 || code == 127)
        skip_because("no TensorBoard here (scripts/install-deps pypi installs it): %s", output);
    assert_int_equal(code, 0);
    return output;
}

static yk_tensorboard *open_writer(int64_t step)
{
    yk_tensorboard *writer;
    assert_ok(yk_tensorboard_open(&writer, yk_test_directory(), step));
    return writer;
}

YK_TEST(tensorboard_reads_steps_and_epochs)
{
    yk_tensorboard *writer = open_writer(0);
    for (int64_t step = 1; step <= 3; step++)
        assert_ok(yk_tensorboard_step(
            writer, &(yk_step_record){.step = step, .loss = 1 / (double)step, .lr = 0.1}));
    assert_ok(yk_tensorboard_epoch(
        writer, &(yk_epoch_record){.epoch = 1, .step = 3, .val_loss = NAN, .val_accuracy = 0.75}));
    assert_ok(yk_tensorboard_scalar(writer, "my/tag", 300, -2));
    yk_tensorboard_close(writer);
    const char *found = read_back(yk_test_directory());
    assert_contains(found, "scalar loss/train 1:1 2:0.5 3:0.333333\n");
    assert_contains(found, "scalar training/learning_rate 1:0.1 2:0.1 3:0.1\n");
    assert_contains(found, "scalar loss/validation 3:nan\n");
    assert_contains(found, "scalar accuracy/validation 3:0.75\n");
    assert_contains(found, "scalar my/tag 300:-2\n");
    assert_null(strstr(found, "grad_norm"));
    assert_null(strstr(found, "loss_scale"));
}

YK_TEST(tensorboard_forgets_steps_after_the_resumed_one)
{
    yk_tensorboard *writer = open_writer(0);
    for (int64_t step = 1; step <= 5; step++)
        assert_ok(yk_tensorboard_step(writer, &(yk_step_record){.step = step, .loss = 1}));
    yk_tensorboard_close(writer);
    writer = open_writer(2);
    assert_ok(yk_tensorboard_step(writer, &(yk_step_record){.step = 3, .loss = 2}));
    yk_tensorboard_close(writer);
    assert_contains(read_back(yk_test_directory()), "scalar loss/train 1:1 2:1 3:2\n");
}

YK_TEST(tensorboard_reads_pictures_histograms_and_hyperparameters)
{
    const float values[] = {-1, 0, 0.25f, 3, NAN, INFINITY}, same[] = {2, 2};
    const yk_tensor tensor = {.dtype = YK_F32, .ndim = 1, .dims = {6}, .data = (void *)values};
    const yk_tensor constant = {.dtype = YK_F32, .ndim = 1, .dims = {2}, .data = (void *)same};
    yk_tensorboard *writer = open_writer(0);
    assert_ok(yk_tensorboard_histogram(writer, "weights/a", 1, &tensor));
    assert_ok(yk_tensorboard_histogram(writer, "weights/same", 1, &constant));
    assert_ok(yk_tensorboard_image(writer, "batch", 0, &(yk_png){"\x89PNG....", 8, 20, 10}));
    assert_ok(yk_tensorboard_hyperparameters(
        writer, "lr=0.3\narch=mlp\nlr=0.1\nnesterov=true\nnot an option\n"));
    assert_ok(yk_tensorboard_finish(writer, true));
    yk_tensorboard_close(writer);
    const char *found = read_back(yk_test_directory());
    assert_contains(found, "histogram weights/a 4.0 -1.0 3.0 2.25 4.0\n");
    assert_contains(found, "histogram weights/same 2.0 2.0 2.0 4.0 2.0\n");
    assert_contains(found, "image batch 20x10 PNG\n");
    assert_contains(found, "hparam arch string_value mlp\n");
    assert_contains(found, "hparam lr number_value 0.1\n");
    assert_contains(found, "hparam nesterov bool_value True\n");
    assert_contains(found, "end 1\n");
}

YK_TEST(tensorboard_reads_texts_that_are_not_utf8)
{
    yk_tensorboard *writer = open_writer(0);
    const float values[] = {1};
    const yk_tensor tensor = {.dtype = YK_F32, .ndim = 1, .dims = {1}, .data = (void *)values};
    assert_ok(yk_tensorboard_histogram(writer, "weights/\xff", 1, &tensor));
    assert_ok(yk_tensorboard_hyperparameters(writer, "data=/\xff/\xc3\xa9\n"));
    yk_tensorboard_close(writer);
    const char *found = read_back(yk_test_directory());
    assert_contains(found, "histogram weights/\\xff 1.0");
    assert_contains(found, "hparam data string_value /\\xff/\xc3\xa9\n");
}

/* The whole program: everything that --tensorboard promises is in the run's folder. */
YK_TEST(tensorboard_reads_what_train_writes)
{
    char output[8192];
    int code = yk_test_command(output, sizeof output,
                               "%s train --data synthetic --arch mlp --lr 0.01 --max-steps 3 "
                               "--tensorboard --histograms --output %s/run",
                               getenv("YOKE_PROGRAM"), yk_test_directory());
    assert_int_equal(code, 0);
    snprintf(output, sizeof output, "%s/run", yk_test_directory());
    const char *found = read_back(output);
    assert_contains(found, "scalar loss/train 1:");
    assert_contains(found, "scalar accuracy/validation 3:");
    assert_contains(found, "histogram weights/fc1.weight ");
    assert_contains(found, "histogram gradients/fc1.weight ");
    assert_contains(found, "hparam lr number_value 0.01\n");
    assert_contains(found, "hparam batch-size number_value 128.0\n");
    assert_contains(found, "end 1\n");
}

/* ---- the file -------------------------------------------------------------------------------- */

/* The names of the folder's files, sorted; returns how many there are. */
static int list_files(const char *folder, char names[4][256])
{
    struct dirent **entries;
    int count = 0, all = scandir(folder, &entries, NULL, alphasort);
    for (int i = 0; i < all; i++) {
        if (strstr(entries[i]->d_name, "tfevents") && count < 4)
            snprintf(names[count++], 256, "%s", entries[i]->d_name);
        free(entries[i]);
    }
    if (all >= 0)
        free(entries);
    return count;
}

/* TensorBoard reads files in the order of their names, and what a resumed run writes comes last,
 * also where the clock has been set back meanwhile. */
YK_TEST(a_new_event_file_comes_after_the_others)
{
    char path[300], names[4][256], later[64];
    snprintf(later, sizeof later, "events.out.tfevents.%010lld.host.1.0",
             (long long)time(NULL) + 5000);
    snprintf(path, sizeof path, "%s/%s", yk_test_directory(), later);
    fclose(fopen(path, "w"));
    yk_tensorboard_close(open_writer(1));
    yk_tensorboard_close(open_writer(2));
    assert_int_equal(list_files(yk_test_directory(), names), 3);
    assert_string_equal(names[0], later);
    assert_string_not_equal(names[1], names[2]);
}

YK_TEST(event_files_continue_after_their_folder_was_renamed_or_removed)
{
    char folder[160], moved[160], names[4][256], command[512];
    yk_tensorboard *writer;
    snprintf(folder, sizeof folder, "%s/run", yk_test_directory());
    snprintf(moved, sizeof moved, "%s/moved", yk_test_directory());
    assert_ok(yk_tensorboard_open(&writer, folder, 0));
    assert_ok(yk_tensorboard_step(writer, &(yk_step_record){.step = 1, .loss = 1}));
    assert_int_equal(rename(folder, moved), 0);
    assert_ok(yk_tensorboard_step(writer, &(yk_step_record){.step = 2, .loss = 2}));
    assert_int_equal(list_files(moved, names), 1);
    assert_int_equal(list_files(folder, names), 1);
    snprintf(command, sizeof command, "rm -r %s", folder);
    assert_int_equal(system(command), 0);
    assert_ok(yk_tensorboard_step(writer, &(yk_step_record){.step = 3, .loss = 3}));
    yk_tensorboard_close(writer);
    assert_int_equal(list_files(folder, names), 1);
    assert_contains(read_back(folder), "scalar loss/train 3:3\n");
}

/* ---- misuse ---------------------------------------------------------------------------------- */

YK_TEST(event_files_that_cannot_be_written_name_themselves)
{
    char path[256];
    yk_tensorboard *writer = (yk_tensorboard *)1;
    snprintf(path, sizeof path, "%s/file", yk_test_directory());
    fclose(fopen(path, "w"));
    assert_status(YK_ERROR_IO, yk_tensorboard_open(&writer, path, 0));
    assert_null(writer);
    assert_contains(yk_last_error(), path);
}

/* A write that a limit cuts short: the reason is the limit's, not a guess. */
YK_TEST(event_files_say_why_they_cannot_be_written)
{
    char names[4][256], path[512];
    yk_tensorboard *writer = open_writer(1);
    assert_ok(yk_tensorboard_step(writer, &(yk_step_record){.step = 1, .loss = 1}));
    assert_int_equal(list_files(yk_test_directory(), names), 1);
    snprintf(path, sizeof path, "%s/%s", yk_test_directory(), names[0]);
    yk_test_limit_files(path, 20);
    yk_status status = yk_tensorboard_step(writer, &(yk_step_record){.step = 2, .loss = 2});
    yk_test_limit_files(NULL, 0);
    assert_status(YK_ERROR_IO, status);
    assert_contains(yk_last_error(), "cannot write: File too large");
    yk_tensorboard_close(writer);
}

YK_TEST(histograms_of_integers_are_refused)
{
    const int32_t values[] = {1};
    yk_tensorboard *writer = open_writer(0);
    assert_status(
        YK_ERROR_UNSUPPORTED,
        yk_tensorboard_histogram(
            writer, "a", 1,
            &(yk_tensor){.dtype = YK_I32, .ndim = 1, .dims = {1}, .data = (void *)values}));
    yk_tensorboard_close(writer);
}
