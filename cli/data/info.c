/* See info.h. */
#include "data/info.h"

#include <math.h>
#include <stdio.h>

#include "cli.h"
#include "common/plural.h"
#include "common/terminal.h"
#include "setup/setup.h"

enum { MAX_CLASSES = 1000, MAX_CHANNELS = 1024 };

bool cli_data_leave_out(yk_status status, bool skip_damaged)
{
    if (!skip_damaged || !yk_sample_is_damaged(status))
        return false;
    fprintf(stderr, "%s: left out\n", yk_last_error());
    return true;
}

typedef struct totals {
    int64_t of_class[MAX_CLASSES];
    int channels; /* the most that a picture has */
    int64_t damaged;
    double sum[MAX_CHANNELS], squares[MAX_CHANNELS], pixels[MAX_CHANNELS];
} totals;

static void count_pixels(totals *all, const yk_tensor *image)
{
    int channels = image->dims[0] < MAX_CHANNELS ? (int)image->dims[0] : MAX_CHANNELS;
    const uint8_t *pixels = image->data;
    all->channels = channels > all->channels ? channels : all->channels;
    for (int c = 0; c < channels; c++) {
        int64_t plane = image->dims[1] * image->dims[2];
        uint64_t sum = 0, squares = 0;
        for (int64_t p = 0; p < plane; p++, pixels++) {
            sum += *pixels;
            squares += (uint32_t)*pixels * *pixels;
        }
        all->sum[c] += (double)sum;
        all->squares[c] += (double)squares;
        all->pixels[c] += (double)plane;
    }
}

static void count_sample(totals *all, const yk_tensor *image, const yk_tensor *label)
{
    int32_t class = label ? *(const int32_t *)label->data : -1;
    if (image)
        count_pixels(all, image);
    if (class >= 0 && class < MAX_CLASSES)
        all->of_class[class]++;
}

static bool count_samples(totals *all, const yk_dataset *dataset, bool skip_damaged)
{
    int images = cli_field_index(dataset, "images"), labels = cli_field_index(dataset, "labels");
    yk_reader *reader;
    const yk_tensor *fields;
    if (images >= 0 && yk_dataset_field(dataset, images)->kind == YK_FIELD_TENSOR)
        images = -1; /* numbers have no pixels */
    *all = (totals){.channels = 0};
    bool fine = cli_ok(yk_reader_create(&reader, dataset));
    for (int64_t i = 0; fine && i < yk_dataset_size(dataset); i++) {
        yk_status status = yk_reader_read(reader, i, &fields);
        if (cli_data_leave_out(status, skip_damaged)) {
            all->damaged++;
            continue;
        }
        fine = cli_ok(status);
        if (fine)
            count_sample(all, images >= 0 ? &fields[images] : NULL,
                         labels >= 0 ? &fields[labels] : NULL);
    }
    yk_reader_destroy(reader);
    return fine;
}

/* A channel's colour, or its number. */
static const char *channel_name(const totals *all, int channel)
{
    static const char *const names[] = {"red", "green", "blue"};
    static char number[24];
    if (all->channels == 1)
        return "grey";
    if (all->channels == 3 && channel < 3)
        return names[channel];
    snprintf(number, sizeof number, "%d", channel);
    return number;
}

static void print_pixels(const totals *all)
{
    printf("\n       ");
    for (int c = 0; c < all->channels; c++)
        printf("%8s", channel_name(all, c));
    printf("\n  mean ");
    for (int c = 0; c < all->channels; c++)
        printf("  %.4f", all->sum[c] / all->pixels[c] / 255);
    printf("\n  std  ");
    for (int c = 0; c < all->channels; c++) {
        double mean = all->sum[c] / all->pixels[c];
        printf("  %.4f", sqrt(fmax(all->squares[c] / all->pixels[c] - mean * mean, 0)) / 255);
    }
    printf("\n");
}

/* "images of 3x32x32", or "image" for one; "samples" where there are no images. */
static void describe_images(char text[64], const yk_dataset *dataset, int64_t count)
{
    const yk_field *field = yk_dataset_find_field(dataset, "images");
    const int64_t *dims = field ? field->dims : NULL;
    if (!field || field->ndim != 3)
        snprintf(text, 64, "%s", cli_plural(count, "sample", "samples"));
    else if (dims[1] == YK_ANY_SIZE || dims[2] == YK_ANY_SIZE)
        snprintf(text, 64, "%s", cli_plural(count, "image", "images of different sizes"));
    else
        snprintf(text, 64, "%s of %lldx%lldx%lld", cli_plural(count, "image", "images"),
                 (long long)dims[0], (long long)dims[1], (long long)dims[2]);
}

static void print_heading(const totals *all, const yk_dataset *dataset, const char *split)
{
    char images[64];
    int64_t count = yk_dataset_size(dataset) - all->damaged, classes = yk_dataset_classes(dataset);
    describe_images(images, dataset, count);
    cli_print_name(stdout, yk_dataset_name(dataset));
    printf(", %s: %lld %s in %lld %s\n\n", split, (long long)count, images, (long long)classes,
           cli_plural(classes, "class", "classes"));
}

/* A class's name, or "". */
static const char *class_name(const yk_dataset *dataset, int64_t label)
{
    const char *name = yk_dataset_class_name(dataset, label);
    return name ? name : "";
}

/* How many images each class has, in a column beside their names. */
static void print_classes(const totals *all, const yk_dataset *dataset)
{
    int64_t classes = yk_dataset_classes(dataset);
    int64_t shown = classes < MAX_CLASSES ? classes : MAX_CLASSES;
    int longest = 14, digits = classes > 100 ? 3 : 2;
    for (int64_t label = 0; label < shown; label++) {
        int width = cli_text_width(class_name(dataset, label));
        longest = width > longest ? width : longest;
    }
    for (int64_t label = 0; label < shown; label++) {
        const char *name = class_name(dataset, label);
        printf("  %*lld  ", digits, (long long)label);
        cli_print_name(stdout, name);
        printf("%*s %8lld\n", longest - cli_text_width(name), "", (long long)all->of_class[label]);
    }
    if (classes > shown)
        printf("  ... and %lld other %s\n", (long long)(classes - shown),
               cli_plural(classes - shown, "class", "classes"));
}

int cli_data_info(const yk_dataset *dataset, const char *split, bool skip_damaged)
{
    totals all;
    if (!count_samples(&all, dataset, skip_damaged))
        return CLI_EXIT_FAILED;
    print_heading(&all, dataset, split);
    print_classes(&all, dataset);
    if (all.channels > 0)
        print_pixels(&all);
    if (all.damaged > 0)
        printf("\n%lld damaged %s left out\n", (long long)all.damaged,
               cli_plural(all.damaged, "image was", "images were"));
    return CLI_EXIT_OK;
}
