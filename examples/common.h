/* What the examples share beside the library: flags of the command line, data by name, a clock. */
#ifndef YOKE_EXAMPLES_COMMON_H
#define YOKE_EXAMPLES_COMMON_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <yoke/yoke.h>

/* ---- flags ---------------------------------------------------------------------------------- */

/* --NAME VALUE or --NAME=VALUE. One of text, number and arch points to where it is stored, and to
 * its default. */
typedef struct flag {
    const char *name, *value, *help;
    const char **text;
    int64_t *number;  /* a whole number from 1 */
    yk_arch_fn *arch; /* a network of the library */
    char letter;      /* short form, or 0 */
} flag;

/* Rows that several examples have. */
#define FLAG_DATA(variable)                                                                        \
    {                                                                                              \
        "data", "DATA", "synthetic (drawn images), cifar10:DIR or folder:DIR [synthetic]",         \
            .text = (variable)                                                                     \
    }
#define FLAG_ARCH(variable)                                                                        \
    {                                                                                              \
        "arch", "NAME", "network; mlp takes seconds [resnet50]", .arch = (variable)                \
    }
#define FLAG_DEVICE(variable)                                                                      \
    {                                                                                              \
        "device", "NAME", "where the model computes, such as cpu or cuda:0 [cpu]",                 \
            .text = (variable)                                                                     \
    }
#define FLAG_MAX_STEPS(variable)                                                                   \
    {                                                                                              \
        "max-steps", "N", "end each epoch after N steps [the whole epoch]", .number = (variable)   \
    }

static inline void refuse_flag(const flag *f, const char *text, const char *expected)
{
    fprintf(stderr, "--%s %s: expected %s\n", f->name, text, expected);
    exit(2);
}

static inline void set_flag(const flag *f, const char *text)
{
    if (f->text) {
        *f->text = text;
    } else if (f->arch) {
        *f->arch = yk_arch_find(text);
        if (!*f->arch)
            refuse_flag(f, text, "the name of a network");
    } else {
        char *end;
        errno = 0;
        *f->number = strtoll(text, &end, 10);
        if (errno || end == text || *end || *f->number < 1)
            refuse_flag(f, text, "a whole number from 1");
    }
}

static inline void print_flags(const char *program, const flag *flags, size_t count)
{
    const char *slash = strrchr(program, '/');
    printf("usage: %s [OPTION]...\n", slash ? slash + 1 : program);
    for (size_t i = 0; i < count; i++) {
        int length = flags[i].letter ? printf("  -%c, ", flags[i].letter) : printf("  ");
        length += printf("--%s %s", flags[i].name, flags[i].value);
        printf("%*s%s\n", 25 - length, "", flags[i].help);
    }
}

/* The flag of an argument such as "--epochs=3", or NULL. */
static inline const flag *find_flag(const char *argument, const flag *flags, size_t count)
{
    bool is_long = strncmp(argument, "--", 2) == 0;
    size_t length = strcspn(argument, "=");
    for (size_t i = 0; i < count; i++) {
        const char *name = flags[i].name;
        if (is_long && strlen(name) == length - 2 && strncmp(name, argument + 2, length - 2) == 0)
            return &flags[i];
        if (!is_long && flags[i].letter && length == 2 && argument[1] == flags[i].letter)
            return &flags[i];
    }
    return NULL;
}

/* Ends the program after --help, and with code 2 where something is wrong. */
static inline void parse_flags(int argc, char **argv, const flag *flags, size_t count)
{
    for (int i = 1; i < argc; i++) {
        const char *equals = strchr(argv[i], '=');
        const flag *found = argv[i][0] == '-' ? find_flag(argv[i], flags, count) : NULL;
        if (strcmp(argv[i], "--help") == 0) {
            print_flags(argv[0], flags, count);
            exit(0);
        }
        if (!found || (!equals && i + 1 == argc)) {
            fprintf(stderr, found ? "%s needs a value\n" : "unexpected argument %s\n", argv[i]);
            exit(2);
        }
        set_flag(found, equals ? equals + 1 : argv[++i]);
    }
}

/* ---- data and time -------------------------------------------------------------------------- */

/* "synthetic"; "cifar10:DIR", or DIR alone; or "folder:DIR" with JPEG, PNG and WebP files, one
 * folder for each class, in DIR/train and DIR/val. */
static inline yk_dataset *open_data(const char *data, yk_split split)
{
    yk_dataset *dataset;
    if (strcmp(data, "synthetic") == 0)
        YK_CHECK(yk_synthetic_create(&dataset, split, NULL));
    else if (strncmp(data, "folder:", 7) == 0)
        YK_CHECK(yk_folder_open(&dataset, data + 7, split));
    else
        YK_CHECK(
            yk_cifar10_open(&dataset, strncmp(data, "cifar10:", 8) == 0 ? data + 8 : data, split));
    return dataset;
}

/* The list of transforms; images of other sizes are first brought to the 32x32 of CIFAR-10. */
static inline const char *transforms_for(const yk_dataset *dataset, const char *transforms)
{
    static char longer[256];
    const yk_field *images = yk_dataset_find_field(dataset, "images");
    if (images->dims[1] == 32 && images->dims[2] == 32)
        return transforms;
    snprintf(longer, sizeof longer, "Resize(32),CenterCrop(32),%s", transforms);
    return longer;
}

/* Seconds since some moment in the past. */
static inline double now(void)
{
    struct timespec clock;
    clock_gettime(CLOCK_MONOTONIC, &clock);
    return (double)clock.tv_sec + 1e-9 * (double)clock.tv_nsec;
}

#endif
