/* What `yoke evaluate` evaluates, and how: by its options, and by what the file and its run say. */
#ifndef YOKE_CLI_EVALUATE_SUBJECT_H
#define YOKE_CLI_EVALUATE_SUBJECT_H

#include "setup/setup.h"

typedef struct cli_evaluate_options {
    const char *data, *arch;
    yk_group_options group; /* the timeout */
    yk_model_options model; /* device, mixed precision and threads */
    cli_ranks nproc;
    int64_t image_size, batch_size;
    int workers;
    bool arch_given, data_given, ema, skip_damaged, per_class, confusion;
    yk_tta tta;
    double tta_confidence;
} cli_evaluate_options;

enum { CLI_SUBJECT_PATH = 4096 };

/* What is evaluated: options, completed by what the file and its run say. */
typedef struct cli_subject {
    cli_evaluate_options options;
    char path[CLI_SUBJECT_PATH]; /* the file */
    char arch[64], data[CLI_SUBJECT_PATH];
    cli_augment augment; /* as in the training run; its texts are these */
    char preset[CLI_TRANSFORMS_TEXT], evaluation[CLI_TRANSFORMS_TEXT], normalize[256];
    double val_split, label_smoothing; /* as in the training run */
    int64_t classes;                   /* of the network; 0: those of the data */
    bool recognised;                   /* the network, by its tensors */
    bool of_a_run;                     /* the file records the options of its run */
    yk_tensor_file *file;
    const yk_model_info *info; /* what the file says, or NULL; its own */
} cli_subject;

/* Completes the options, which the caller has set. Ranks on one file system find the same. False:
 * it has said why; the file is to be closed all the same. */
bool cli_subject_find(cli_subject *s, const char *checkpoint, const yk_group *world);

/* A network may know more classes than the data has. */
int64_t cli_subject_classes(const cli_subject *s, const yk_dataset *test);

/* Labels are numbers: where both have names, those of the data must be those of the network. */
bool cli_subject_check_classes(const cli_subject *s, const yk_dataset *test);

/* Labels are numbers: where names do not tell, a network for more classes may know others than the
 * data has. A run's own data may have fewer, though (--classes). */
void cli_subject_warn_of_classes(const cli_subject *s, const yk_dataset *test);

/*
 * Where the file records no run, or another size is asked for, pictures become what `yoke predict`
 * makes of them; pictures of one size stay as they are if the file says nothing about them.
 */
bool cli_subject_choose_transforms(cli_transforms *made, const cli_subject *s,
                                   const yk_dataset *test);

#endif
