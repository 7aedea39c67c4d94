/*
 * The data sets that the program knows, by the names that --data and `yoke data` take: NAME,
 * NAME:PATH, or a path alone, whose content then tells. A new reader is a row of the table in
 * data_kinds.c.
 */
#ifndef YOKE_CLI_DATA_KINDS_H
#define YOKE_CLI_DATA_KINDS_H

#include <yoke/data.h>

enum { CLI_DATA_PATH = 4096 };

/* What follows the colon. */
typedef enum cli_data_detail {
    CLI_DATA_DETAIL_NONE,     /* nothing can */
    CLI_DATA_DETAIL_PATH,     /* a folder or a file */
    CLI_DATA_DETAIL_PATTERNS, /* a pattern of files, or two: "TRAIN::VAL" */
    CLI_DATA_DETAIL_WORDS     /* a description that is not a path */
} cli_data_detail;

typedef struct cli_data_kind {
    const char *name, *form; /* "cifar10", "cifar10[:DIR]" */
    const char *help;        /* what it is, in a few words */
    cli_data_detail detail;
    bool needs_detail; /* without one the data is downloaded or drawn */
    bool downloads;    /* without a detail it is the download of this name (yk_download_data) */
    bool by_content;   /* whether open tells by YK_ERROR_NOT_FOUND that a folder holds other data */
    /* Opens one split; detail is "" without a colon. YK_ERROR_NOT_FOUND where there is none. */
    yk_status (*open)(yk_dataset **dataset, const char *detail, yk_split split);
} cli_data_kind;

/* The index-th kind, or NULL. */
const cli_data_kind *cli_data_kind_at(size_t index);
/* What a text names: *detail is what follows the colon, or "". NULL for a path without a kind,
 * which *detail then is. */
const cli_data_kind *cli_data_kind_of(const char *text, const char **detail);
/* Whether text, of this kind (or NULL), names data that is downloaded. */
bool cli_data_is_download(const cli_data_kind *kind, const char *detail);
/* "cifar10[:DIR], synthetic, ... or a folder". */
const char *cli_data_choices(void);

/* Opens what text names; of data that is downloaded, path is the folder (or NULL). */
yk_status cli_data_open(yk_dataset **dataset, const char *text, const char *path, yk_split split);
/* The text with an absolute path, into absolute; false if it does not fit. */
bool cli_data_absolute(const char *text, char absolute[CLI_DATA_PATH]);
/* Whether what text names can be there; otherwise a usage error of the command has been printed. */
bool cli_check_data(const char *name, const char *option, const char *text);

#endif
