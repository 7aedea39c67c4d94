/*
 * What several commands set up alike: ranks, data, models. Functions that return bool
 * have said on stderr why they failed.
 */
#ifndef YOKE_CLI_SETUP_H
#define YOKE_CLI_SETUP_H

#include <yoke/yoke.h>

#include "common/errors.h"
#include "options/ranks.h"
#include "setup/data_kinds.h"

/* ---- ranks (ranks.c) ------------------------------------------------------------------------- */

/*
 * For commands with --nproc: starts this command again as that many ranks and returns the job's
 * exit code; -1 if this process is to do the work, alone or as a rank that someone has started.
 * argv is the command's own, from its word on. prints_result: see cli_launch.
 */
int cli_launch_self(const char *name, cli_ranks nproc, double grace_s, bool prints_result, int argc,
                    char **argv);

/* Whether this process is a rank that a launcher, mpirun or srun has started. */
bool cli_is_rank(void);

/* Whether there is the backend, or each one of "shm,tcp" (NULL: as the library chooses); prints an
 * error of the command if not. */
bool cli_check_backends(const char *name, const char *backends);

/* Ranks that the command will run on: as many as were started, or else nproc. */
int64_t cli_ranks_expected(cli_ranks nproc);

enum { CLI_MAX_THREADS = 1024 }; /* of a model, as the library has it */
/* Kernel threads of a rank: wanted, else OMP_NUM_THREADS, else this rank's share of the cores.
 * *source says which. */
int cli_threads(int64_t wanted, int local_ranks, const char **source);

/* Broadcasts rank 0's text to every rank. */
bool cli_share_text(yk_group *world, char *text, size_t size);

/* ---- data (data.c) --------------------------------------------------------------------------- */

/* Which data: as --data and --val-split name it. */
typedef struct cli_data_setup {
    const char *data; /* see data_kinds.h */
    double val_split; /* part of the training data that validates; 0: the data's own test data */
} cli_data_setup;

/*
 * Opens the training and the validation data, or the latter alone if train is NULL. Collective:
 * rank 0 downloads what is missing. A stop signal ends the download on all ranks; they agree on
 * *stop_signal, 0 where there was none.
 */
bool cli_open_data(yk_dataset **train, yk_dataset **test, yk_group *world,
                   const cli_data_setup *setup, int *stop_signal);

/* What a network learns from: the field "images" as the loader serves it, where "labels" say their
 * class. */
bool cli_find_images(yk_field *images, const yk_dataset *dataset);
/* The number of the field of that name, or -1. */
int cli_field_index(const yk_dataset *dataset, const char *name);
/* The name of a class, or its number where it has none; valid until the next call. */
const char *cli_class_text(const yk_dataset *dataset, int64_t label);

/* ---- transforms (transforms.c) --------------------------------------------------------------- */

/* What the options of augmentation say. */
typedef struct cli_augment {
    const char *preset;     /* cifar, imagenet, none, or a list; NULL: what is usual for the data */
    const char *evaluation; /* a list; NULL: the one that goes with training */
    const char *normalize;  /* "Normalize(...)" of a preset; NULL: what is usual for the data */
    int64_t image_size;     /* 0: the data's own, or 224 */
    double color_jitter, random_erasing, mixup, cutmix; /* 0: none */
} cli_augment;

enum { CLI_TRANSFORMS_TEXT = 2048 };
typedef struct cli_transforms {
    char train[CLI_TRANSFORMS_TEXT], eval[CLI_TRANSFORMS_TEXT];
    bool mixes; /* labels become probabilities */
} cli_transforms;

/* Whether the texts can be read; otherwise a usage error of the command has been printed. */
bool cli_check_augment(const char *name, const cli_augment *a);
bool cli_choose_transforms(cli_transforms *made, const cli_augment *a, const yk_dataset *data);
/* What the lists make of a field of pictures, which must be the same. */
bool cli_apply_transforms(yk_field *images, const cli_transforms *transforms);
/* Whether those of the data for validation become what a network for `images` takes. */
bool cli_check_evaluated(const yk_field *images, const yk_dataset *test,
                         const cli_transforms *transforms);

/* ---- models (model.c) ------------------------------------------------------------------------ */

typedef struct cli_model_setup {
    const char *arch;
    yk_model_options options; /* the logits are filled in when the model is built */
    double label_smoothing;
    const char *freeze; /* patterns of parameters that are not trained, or NULL */
    yk_field images;    /* the network's input, as it comes from the loader */
    bool probabilities; /* labels are probabilities (n, classes) instead of numbers (n) */
    bool inference;     /* there are neither labels nor a loss */
    int64_t classes;
} cli_model_setup;

/* "resnet18|resnet50|...", of all networks. */
const char *cli_arch_choices(void);
/* Rows of a table of options: a network, the device, and mixed precision as a yk_amp. */
#define CLI_ARCH(help_, variable, given_)                                                          \
    {                                                                                              \
        .type = CLI_OPTION_CHOICE, .name = "arch", .list_choices = cli_arch_choices,               \
        .choice_at = yk_arch_name, .help = (help_), .value = (const char **){variable},            \
        .given = (given_)                                                                          \
    }
#define CLI_DEVICE(variable, given_)                                                               \
    CLI_TEXT(                                                                                      \
        0, "device", "DEVICE",                                                                     \
        "cpu; cuda (the NVIDIA GPU of the local rank; cuda:1 is\nthe second); ref (slow, "         \
        "readable reference kernels);\nsim (these on a simulated accelerator, for tests) [cpu]",   \
        variable, given_)
#define CLI_AMP(help_, variable, given_)                                                           \
    CLI_ENUM(0, "amp", "off|bf16|fp16", help_, variable, given_)
#define CLI_TTA "none|mirror|translate" /* yk_tta */
/* "off", "bf16" or "fp16". */
const char *cli_amp_name(yk_amp amp);
/* Whether these settings can work here; the reason goes to stderr, as a usage error of name. */
bool cli_check_model_options(const char *name, const yk_model_options *options);
/* Whether the tensors of a file are those of this network, before it takes memory. YK_OK also for
 * an unknown network and for images that it does not take: cli_build_model complains of these. */
yk_status cli_check_weights(yk_tensor_file *file, const cli_model_setup *setup);
/* A network with this name, for any images: its parameters have the names that they have for all.
 * NULL: out of memory. */
yk_graph *cli_network_of(const char *arch);
/* Freezes what "PATTERN,..." matches; "!PATTERN" thaws. Patterns are applied in turn; NULL: none.
 */
yk_status cli_freeze(yk_graph *graph, const char *patterns);
/* A classifier of setup->images, with its cross-entropy loss unless it is for inference alone. */
bool cli_build_model(yk_model **model, const cli_model_setup *setup);
/* Describes the model for its files: the network and its images, the data's classes, and what is
 * done to pictures in evaluation. */
bool cli_describe_model(yk_model *model, const cli_model_setup *setup, const yk_dataset *data,
                        const char *transforms);
/* The same without a data set; class_names (classes) may be NULL. */
bool cli_set_info(yk_model *model, const cli_model_setup *setup, const char *const *class_names,
                  const char *transforms);
/* Writes "Normalize(...)" with the mean and deviation of a file's description; false where it has
 * none. */
bool cli_normalize_as(char *text, size_t size, const yk_model_info *info);
/* Whether the network of a file takes pictures, as far as its description tells; info may be
 * NULL. */
bool cli_check_pictures(const char *path, const yk_model_info *info);

/* ---- trained networks (trained.c) ------------------------------------------------------------ */

/* The file that an operand names: itself, or the newest checkpoint of a run's folder. */
bool cli_find_checkpoint(char *path, size_t size, const char *operand);
/* Whether weights have been loaded from a file into a network; otherwise it has said why not, and
 * if they are those of another network, of which. */
bool cli_weights_loaded(yk_status status, const char *path, const char *arch);

/* A network in a file; close it also after a failure. */
typedef struct cli_trained {
    char path[4096];
    char transforms[CLI_TRANSFORMS_TEXT]; /* of the pictures that they were chosen for */
    const char *arch;
    int64_t classes, size[3]; /* (C, H, W) of what the network sees */
    int64_t image_size;       /* the sides that were asked for; 0: those of the training run */
    yk_tensor_file *file;
    const yk_model_info *info; /* what the file says, or NULL; its own */
    yk_model *model;           /* for inference; NULL until it is loaded */
} cli_trained;

/* Finds out what a file, or a run's newest checkpoint, is of; arch NULL: what it says. */
bool cli_trained_open(cli_trained *t, const char *checkpoint, const char *arch, int64_t image_size);
/* Chooses size and transforms by path, arch, info and image_size, for pictures (C, H, W), where H
 * and W may be YK_ANY_SIZE. */
bool cli_trained_choose_transforms(cli_trained *t, const int64_t pictures[3]);
/* Makes its model; with ema it has the averaged weights. */
bool cli_trained_load(cli_trained *t, const yk_model_options *options, bool ema);
void cli_trained_close(cli_trained *t);

#endif
